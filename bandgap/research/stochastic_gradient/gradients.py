"""Gradients of a log posterior from mini-batches of rows, and control variates.

L(theta) = log p(theta) + sum_i log p(d_i | theta) over N rows. With a batch B of n rows, uniform
without replacement,

    g(theta; B) = grad log p(theta) + (N / n) sum_(i in B) grad log p(d_i | theta),   E_B g = grad
    L.

Terms that are no sum over rows belong to the prior part and are computed exactly. For a loss that
is a mean over rows, g = -N grad loss. With a centre t and its full gradient (`ControlVariate`),

    g_cv(theta) = grad log p(theta) + sum_i grad log p(d_i | t)
                  + (N / n) sum_B [grad log p(d_i | theta) - grad log p(d_i | t)].

Some rows may be in every batch (`fixed_rows`; a take-all stratum of k rows A). With n - k drawn of
the others,

    g(theta; B) = grad log p(theta) + sum_(i in A) grad log p(d_i | theta)
                  + (N - k) / (n - k) sum_(i in B without A) grad log p(d_i | theta).

This is for rows that alone determine a direction. Where one row has the curvature l along its own
gradient, batches with it have (N / n) l and the others 0. From h (N / n) l / 2 = 1 on, the variance
along that gradient grows without limit, although the mean step is still stable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError

# With more chains than this, the batches of all chains are drawn in one call. It takes one random
# number for each chain and row, of which there may be MOST_NUMBERS.
MANY_CHAINS = 32
MOST_NUMBERS = 1_000_000


class RowTarget(Protocol):
    """A log posterior of positions (chain, dim): a prior part, and sums over rows."""

    @property
    def n_rows(self) -> int:
        """Number N of rows."""

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return the gradient (chain, dim) of all terms that are no sum over rows."""

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the sum (chain, dim) of the gradients of each chain's row numbers (chain, n)."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Estimate of the gradient of the log posterior from one batch.

    `total` is g, `row_mean` the mean over the batch of the rows' gradients, both (chain, dim).
    `variance` (dim,) is the variance that the batch adds to g, where it is known.
    """

    total: Tensor
    row_mean: Tensor
    variance: Tensor | None = None


Gradient = Callable[[Tensor], Slopes]
"""g(.; B) of one fixed batch: all calls use the same rows."""


@dataclass(frozen=True, eq=False)
class ControlVariate:
    """A centre (dim,) and the sum of all rows' gradients there, (dim,)."""

    centre: Tensor
    full: Tensor


def control_variate(target: RowTarget, centre: Tensor, *, block: int = 4096) -> ControlVariate:
    """Return the control variate at a centre (dim,), computed `block` rows at a time."""
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
    fixed_rows: Tensor | None = None,
    variance: Tensor | None = None,
) -> Gradient:
    """Return g(.; B) for batches `rows` (chain, n).

    Parameters
    ----------
    target
        The log posterior.
    rows
        Row numbers of each chain's batch without the fixed rows, (chain, n).
    control
        Control variate, or None.
    fixed_rows
        Row numbers (k,) that belong to every batch, or None.
    variance
        Passed on as `Slopes.variance`.
    """
    chains, n = rows.shape
    n_fixed = 0 if fixed_rows is None else len(fixed_rows)
    fixed = fixed_rows.expand(chains, -1) if fixed_rows is not None and n_fixed else None
    scale = (target.n_rows - n_fixed) / n

    def row_sums(position: Tensor) -> tuple[Tensor, ...]:
        drawn = target.row_gradient(position, rows)
        return (drawn,) if fixed is None else (drawn, target.row_gradient(position, fixed))

    sums_at_centre = None if control is None else row_sums(control.centre.expand(chains, -1))

    def gradient(position: Tensor) -> Slopes:
        sums = row_sums(position)
        terms = sums
        if sums_at_centre is not None:
            terms = tuple(a - b for a, b in zip(sums, sums_at_centre, strict=True))
        total = target.prior_gradient(position) + scale * terms[0]
        for term in terms[1:]:
            total = total + term
        if control is not None:
            total = total + control.full
        row_mean = sums[0] / n if fixed is None else (scale * sums[0] + sums[1]) / target.n_rows
        return Slopes(total, row_mean, variance)

    return gradient


def free_rows(fixed_rows: Tensor | None, n_rows: int) -> Tensor | None:
    """Return the row numbers (n_rows - k,) that are not fixed; None without fixed rows."""
    if fixed_rows is None or not len(fixed_rows):
        return None
    is_free = torch.ones(n_rows, dtype=torch.bool)
    is_free[fixed_rows.cpu()] = False
    return is_free.nonzero().squeeze(-1)


def draw_rows(
    n_rows: int, batch_size: int | None, chains: int, *, rng: np.random.Generator
) -> Tensor:
    """Draw a batch for each chain, (chain, n), uniform without replacement; None means all rows."""
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
