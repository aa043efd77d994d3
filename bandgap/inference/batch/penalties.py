"""Gaussian priors of a stack's hidden layers phi as penalties; the output layer has none.

With half the squared error per row as loss and phi* the start, the added gradients are

    L2SP (Li, Grandvalet and Davoine, 2018)      w (phi - phi*)
    zero mean                                    w phi
    PTYL (Shwartz-Ziv and others, 2022)          (1 / n) S^-1 (phi - mu),  S = gamma S_swag + eps I

S_swag and mu come from snapshots of the source's training, and S^-1 = A^-1 - W W' with K columns
(`swag.py`).

An isotropic prior around the start has the same form in the row space of the first layer's inputs,
where the weights outside of it do not move. The prior of PTYL does not, and around zero the weights
outside move too: both need full coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from bandgap.inference.batch.kernels import Stack
from bandgap.networks.perceptron import Params, layer_of
from bandgap.networks.swag import SnapshotPrior


class Penalty(Protocol):
    """Adds the gradient of a penalty to that of the mean loss of every sample."""

    def add_gradient(self, stack: Stack) -> None:
        """Add to the gradients of the hidden layers."""
        ...

    def of(self, samples: Tensor) -> "Penalty":
        """Return the penalty of these samples alone."""
        ...


@dataclass(frozen=True, eq=False)
class Isotropic:
    """Pull of the hidden layers to centres: their start (L2SP) or zero.

    A stack has the change of the first layer, whose centre is 0 for L2SP and minus its start, in
    full coordinates, for zero.
    """

    strength: Tensor  # w, (S,)
    centres: Sequence[Tensor | float]  # (in + 1, out) each, or one number

    def add_gradient(self, stack: Stack) -> None:
        """Add w (phi - centre)."""
        by = self.strength[:, None, None]
        for level, centre in enumerate(self.centres):
            stack.gradients[level].addcmul_(by, stack.weights[level] - centre)

    def of(self, samples: Tensor) -> "Isotropic":
        """Return the penalty of these samples alone."""
        return replace(self, strength=self.strength[samples])


@dataclass(frozen=True, eq=False)
class PriorLayers:
    """A^-1 and W of S^-1 = A^-1 - W W' of every hidden layer, in the order of a stack.

    Layer l has d_l = (in + 1) out weights.
    """

    inverse: Sequence[Tensor]  # (d_l,) each
    factor: Sequence[Tensor]  # (d_l, K) each


@dataclass(frozen=True, eq=False)
class PTYL:
    """The source's prior of the hidden layers, one for each value of gamma, in full coordinates.

    `offset` turns a stack's weights into phi - mu: theta_hat - mu for the first layer, whose
    weights start at 0, and -mu for the others.
    """

    offset: Sequence[Tensor]  # (in + 1, out) each
    priors: Sequence[PriorLayers]
    which: Tensor  # the prior of every sample, (S,)
    share: Tensor  # 1 / n, (S,)

    @staticmethod
    def build(
        priors: Sequence[SnapshotPrior], *, first: Tensor, which: Tensor, n_rows: Tensor
    ) -> "PTYL":
        """Arrange priors of all hidden layers.

        `first` is theta_hat_1 (p + 1, width 1), its bias in the last row.
        """
        mean = priors[0].mean
        device = n_rows.device
        indices = _weight_indices(mean)
        flat = torch.cat([value.flatten() for value in mean.values()])
        offset = []
        for layer, index in enumerate(indices):
            mu = flat[index].view(-1, mean[f"bias.{layer + 1}"].shape[0])
            offset.append(((first.to(mu) if layer == 0 else 0.0) - mu).to(device))
        arranged = [
            PriorLayers(
                [prior.inverse_diagonal[index].to(device) for index in indices],
                [prior.factor[index].to(device) for index in indices],
            )
            for prior in priors
        ]
        return PTYL(offset, arranged, which, 1.0 / n_rows.to(flat.dtype))

    def add_gradient(self, stack: Stack) -> None:
        """Add S^-1 (phi - mu) / n."""
        for number, prior in enumerate(self.priors):
            index = torch.nonzero(self.which == number)[:, 0]
            if index.numel():
                self._add(stack, prior, index)

    def _add(self, stack: Stack, prior: PriorLayers, index: Tensor) -> None:
        away = [
            (stack.weights[k][index] + offset).flatten(1) for k, offset in enumerate(self.offset)
        ]
        along = torch.stack([e @ w for e, w in zip(away, prior.factor, strict=True)]).sum(0)
        for k, (e, inverse, w) in enumerate(zip(away, prior.inverse, prior.factor, strict=True)):
            pull = self.share[index, None] * (inverse * e - along @ w.T)
            stack.gradients[k].index_add_(0, index, pull.view(-1, *stack.gradients[k].shape[1:]))

    def of(self, samples: Tensor) -> "PTYL":
        """Return the penalty of these samples alone."""
        return replace(self, which=self.which[samples], share=self.share[samples])


def _weight_indices(params: Params) -> list[Tensor]:
    """Return the indices of every layer, as (in + 1, out) flattened, among the flat parameters."""
    sizes = [value.numel() for value in params.values()]
    parts = torch.split(torch.arange(sum(sizes)), sizes)
    at = {
        name: part.view(value.shape)
        for (name, value), part in zip(params.items(), parts, strict=True)
    }
    levels = range(1, max(map(layer_of, params)) + 1)
    return [torch.cat([at[f"weight.{i}"].T, at[f"bias.{i}"][None]], 0).flatten() for i in levels]
