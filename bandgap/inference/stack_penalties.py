r"""Gaussian priors of a stack's hidden layers phi, as penalties; the output layer is left free.

With the loss per row, half the squared error, and theta* the start, the gradients added are

    L2SP (Li, Grandvalet and Davoine, 2018)          w (phi - phi*)
    PTYL (Shwartz-Ziv and others, 2022)              (1 / n) S^-1 (phi - mu),     S = gamma S_swag + eps I

S_swag = diag(d) / 2 + D D' / (2 (K - 1)) and mu come from K snapshots of the source's training (SWAG: Maddox and
others, 2019). S is never formed: with A = gamma d / 2 + eps, U = D / sqrt(2 (K - 1)) and e = phi - mu, Woodbury gives

    S^-1 e = A^-1 (e - gamma U B^-1 U' A^-1 e),     B = I + gamma U' A^-1 U

An isotropic prior and its gradient look the same in the row space of the first layer's inputs; that of PTYL does not,
and takes full coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from bandgap.inference.stack_kernels import Layers, Stack


class Penalty(Protocol):
    """Adds its gradient to that of the mean loss of every sample."""

    def add_gradient(self, stack: Stack) -> None:
        """Add to the gradients of the hidden layers."""
        ...

    def of(self, samples: Tensor) -> "Penalty":
        """Return the penalty of these samples alone."""
        ...


@dataclass(frozen=True, eq=False)
class L2SP:
    """Pull of the hidden layers to their start; the first one starts at C = 0."""

    strength: Tensor  # w, (S,)
    between: Sequence[Tensor]  # start of the layers between first and last, (in + 1, out) each

    def add_gradient(self, stack: Stack) -> None:
        """Add w (phi - phi*)."""
        by = self.strength[:, None, None]
        stack.gradients[0].addcmul_(by, stack.weights[0])
        for level, start in enumerate(self.between, start=1):
            stack.gradients[level].addcmul_(by, stack.weights[level] - start)

    def of(self, samples: Tensor) -> "L2SP":
        """Return the penalty of these samples alone."""
        return replace(self, strength=self.strength[samples])


@dataclass(frozen=True, eq=False)
class SwagPrior:
    """Mean and covariance of a source's hidden layers, each (in + 1, out) with the bias last; K deviations."""

    mean: Sequence[Tensor]
    diagonal: Sequence[Tensor]  # d, at least 0
    deviations: Sequence[Tensor]  # D, (K, in + 1, out)


@dataclass(frozen=True, eq=False)
class PTYL:
    """Pull of the hidden layers by a source's prior, for stacks in full coordinates.

    `offset` is what turns a stack's weights into phi - mu.
    """

    offset: Sequence[Tensor]
    half_diagonal: Sequence[Tensor]  # d / 2
    directions: Sequence[Tensor]  # U, (K, in + 1, out)
    eps: float
    gamma: Tensor  # (S,)
    factor: Tensor  # Cholesky factor of B, (S, K, K)
    share: Tensor  # 1 / n, (S,)

    @staticmethod
    def build(prior: SwagPrior, *, first: Tensor, gamma: Tensor, eps: float, n_rows: Tensor) -> "PTYL":
        """Prepare the prior for samples with gamma (S,) and n_rows (S,); `first` is theta_hat_1, (p + 1, width)."""
        k = prior.deviations[0].shape[0]
        half = [0.5 * d for d in prior.diagonal]
        directions = [d / (2.0 * (k - 1)) ** 0.5 for d in prior.deviations]
        values, which = torch.unique(gamma, return_inverse=True)
        factors = []
        for value in values:
            b = torch.eye(k, dtype=torch.float64, device=gamma.device)
            for d, u in zip(half, directions, strict=True):
                wide = u.double().flatten(1)
                b += float(value) * (wide / (float(value) * d.double().flatten() + eps)) @ wide.T
            factors.append(torch.linalg.cholesky(b))
        offset = [(first if level == 0 else torch.zeros_like(mean)) - mean for level, mean in enumerate(prior.mean)]
        factor = torch.stack(factors)[which].to(first.dtype)
        return PTYL(offset, half, directions, eps, gamma, factor, 1.0 / n_rows.to(gamma.dtype))

    def add_gradient(self, stack: Stack) -> None:
        """Add S^-1 (phi - mu) / n."""
        inverse = [1.0 / (self.gamma[:, None, None] * d + self.eps) for d in self.half_diagonal]
        away: Layers = [stack.weights[level] + offset for level, offset in enumerate(self.offset)]
        along = sum(
            torch.einsum("sio,kio->sk", a * e, u) for a, e, u in zip(inverse, away, self.directions, strict=True)
        )
        solved = torch.cholesky_solve(torch.as_tensor(along)[:, :, None], self.factor).squeeze(-1)
        back = self.gamma[:, None] * solved
        for level, (a, e, u) in enumerate(zip(inverse, away, self.directions, strict=True)):
            pull = a * (e - torch.einsum("sk,kio->sio", back, u))
            stack.gradients[level].addcmul_(self.share[:, None, None], pull)

    def of(self, samples: Tensor) -> "PTYL":
        """Return the penalty of these samples alone."""
        return replace(self, gamma=self.gamma[samples], factor=self.factor[samples], share=self.share[samples])
