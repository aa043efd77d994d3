"""Adam by torch's function: `torch.optim.Adam` imports a compiler, which takes seconds."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adam import adam


class Adam:
    """Steps of Adam (Kingma and Ba, 2015) on parameters that have gradients.

    Parameters
    ----------
    by_share
        Parameters by their learning rate as a share of `rate`.
    rate
        Learning rate; may be changed between steps.
    eps
        Added to the root of the second moment.
    """

    def __init__(
        self, by_share: Mapping[float, list[Tensor]], *, rate: float, eps: float = 1e-8
    ) -> None:
        self.rate = rate
        self._eps = eps
        self._groups = [
            (
                share,
                params,
                [torch.zeros_like(p) for p in params],
                [torch.zeros_like(p) for p in params],
                [torch.tensor(0.0) for _ in params],
            )
            for share, params in by_share.items()
        ]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for _, params, *_ in self._groups:
            for p in params:
                p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against their gradients."""
        for share, params, means, squares, counts in self._groups:
            adam(
                params,
                [p.grad for p in params],  # type: ignore[misc]
                means,
                squares,
                [],
                counts,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=share * self.rate,
                weight_decay=0.0,
                eps=self._eps,
                maximize=False,
            )
