r"""Gradients of a log posterior from mini-batches of rows, and control variates.

L(theta) = log p(theta) + sum_i log p(d_i | theta) over N rows. With a batch B of n rows, uniform without replacement,

    g(theta; B) = grad log p(theta) + (N / n) sum_(i in B) grad log p(d_i | theta),   E_B g = grad L.

What is not a plain sum over rows belongs to the prior's part, computed on all rows. A loss that is a mean over rows
means g = -N grad loss. With a centre t and its full gradient (`ControlVariate`),

    g_cv(theta) = grad log p(theta) + sum_i grad log p(d_i | t) + (N / n) sum_B [grad log p(d_i | theta) - .. | t)].

A row that alone bends the density by l along its own gradient meets (N / n) l in the batches that hold it and nothing
in the others: from a step h with h (N / n) l / 2 = 1 on, what it adds to the variance along its gradient grows without
end, long before h N l / n is unstable on the average. Such rows A (k of them) can be in every batch
(`always`; a take-all stratum): with n - k drawn of the others,

    g(theta; B) = grad log p(theta) + sum_(i in A) grad log p(d_i | theta) + (N - k) / (n - k) sum_(i in B) ..
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError

# batches of so many chains are drawn together, by as many random numbers as all rows of all chains, up to so many
MANY_CHAINS, MOST_NUMBERS = 32, 1_000_000


class RowTarget(Protocol):
    """A log posterior over positions (chain, dim): its prior's part, and sums over rows."""

    @property
    def n_rows(self) -> int:
        """Number N of rows."""

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return the gradient (chain, dim) of all that is no sum over rows."""

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the sum of the gradients of every chain's rows (chain, n), which are given by number, (chain, dim)."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """The gradient g of the log posterior, and the mean over the batch of the rows' gradients, both (chain, dim).

    `variance` (dim,) is what the batch adds to that of g, where it is known.
    """

    total: Tensor
    of_a_row: Tensor
    variance: Tensor | None = None


Gradient = Callable[[Tensor], Slopes]
"""g(.; B) with its batch fixed: two calls are about the same rows."""


@dataclass(frozen=True, eq=False)
class WholeTarget:
    """A log density that is no sum over rows, by its gradient: (chain, dim) to (chain, dim)."""

    gradient: Callable[[Tensor], Tensor]
    n_rows: int = 1

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return zero: the density is one row."""
        return torch.zeros_like(position)

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the gradient of the density."""
        del rows
        return self.gradient(position)


@dataclass(frozen=True, eq=False)
class ControlVariate:
    """A centre (dim,) and the sum over all rows of their gradients there, (dim,)."""

    centre: Tensor
    full: Tensor


def control_variate(target: RowTarget, centre: Tensor, *, block: int = 4096) -> ControlVariate:
    """Pass over all rows once, `block` rows at a time, at a centre (dim,)."""
    full = torch.zeros_like(centre)
    for first in range(0, target.n_rows, block):
        rows = torch.arange(first, min(first + block, target.n_rows), device=centre.device)
        full += target.row_gradient(centre[None], rows[None])[0]
    return ControlVariate(centre, full)


def batch_gradient(
    target: RowTarget,
    rows: Tensor,
    control: ControlVariate | None = None,
    *,
    always: Tensor | None = None,
    variance: Tensor | None = None,
) -> Gradient:
    """Return g(.; B) for batches `rows` (chain, n), beside rows `always` (k,), with the `variance` of `Slopes`."""
    chains, n = rows.shape
    whole = None if always is None or not len(always) else always.expand(chains, -1)
    scale = (target.n_rows - (0 if whole is None else whole.shape[1])) / n

    def sums(position: Tensor) -> tuple[Tensor, ...]:
        drawn = target.row_gradient(position, rows)
        return (drawn,) if whole is None else (drawn, target.row_gradient(position, whole))

    at_centre = None if control is None else sums(control.centre.expand(chains, -1))

    def gradient(position: Tensor) -> Slopes:
        found = sums(position)
        change = (
            found
            if at_centre is None
            else tuple(a - b for a, b in zip(found, at_centre, strict=True))
        )
        total = target.prior_gradient(position) + scale * change[0]
        for rest in change[1:]:
            total = total + rest
        if control is not None:
            total = total + control.full
        return Slopes(
            total,
            found[0] / n if whole is None else (scale * found[0] + found[1]) / target.n_rows,
            variance,
        )

    return gradient


def others_than(always: Tensor | None, n_rows: int) -> Tensor | None:
    """Return the rows (n_rows - k,) that are not in every batch; None where none is in every batch."""
    if always is None or not len(always):
        return None
    left = torch.ones(n_rows, dtype=torch.bool)
    left[always.cpu()] = False
    return left.nonzero().squeeze(-1)


def draw_rows(
    n_rows: int, batch_size: int | None, chains: int, *, rng: np.random.Generator
) -> Tensor:
    """Draw a batch for every chain, (chain, n), uniform without replacement; None for all rows."""
    if batch_size is None or batch_size == n_rows:
        return torch.arange(n_rows).expand(chains, n_rows)
    if not 1 <= batch_size <= n_rows:
        raise ConfigError(
            f"batch of {batch_size} rows. Accepted: 1 to {n_rows}, the number of rows."
        )
    if chains > MANY_CHAINS and chains * n_rows <= MOST_NUMBERS:
        return torch.from_numpy(
            rng.random((chains, n_rows)).argpartition(batch_size - 1, axis=1)[:, :batch_size]
        )
    drawn = [rng.choice(n_rows, batch_size, replace=False, shuffle=False) for _ in range(chains)]
    return torch.from_numpy(np.stack(drawn))
