"""Equal-weight mixtures of normal distributions: the predictive distribution of a new observation, over draws.

Loads no torch.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]

_TOLERANCE_EV = 1e-6  # a thousandth of what is ever printed
_GRID = 65  # points of the first, coarse look at the mixture's distribution function
_MAX_STEPS = 100  # bisection alone reaches the tolerance from a bracket of 1e24 eV


def mixture_quantiles(means: ArrayLike, sds: ArrayLike, probabilities: ArrayLike) -> Floats:
    """Return the quantiles (k, n) of the equal-weight mixture of N(means[d], sds[d]^2) over draws, to 1e-6.

    `means` has shape (draw, n), `sds` (draw,) or (draw, n), `probabilities` (k,) inside (0, 1). Mixtures of components
    that are about as wide as each other, as those of posteriors, are left to compiled loops (`smooth_mixtures`), which
    find their quantiles to 1e-9. The others take Newton's method on the normal score of the distribution function, kept
    inside a bracket that every step narrows.

    Raises InputError on other shapes, on values that are not finite, and on standard deviations that are not positive.
    """
    centres, spreads = checked_mixture(means, sds)
    wanted = np.asarray(probabilities, dtype=np.float64)
    if wanted.ndim != 1 or not np.all((wanted > 0) & (wanted < 1)):
        raise InputError(f"probabilities: found {probabilities!r}. Accepted: one row of numbers inside (0, 1).")
    from bandgap.predictions.smooth_mixtures import smooth_quantiles  # loads numba, which pages do without

    quantiles = smooth_quantiles(centres, spreads, wanted)
    for j in np.flatnonzero(np.isnan(quantiles).any(axis=0)):
        quantiles[:, j] = _quantiles_of_one(centres[:, j], spreads[:, j], wanted)
    return quantiles


def draw_quantiles(draws: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k, n) of draws (draw, n) at probabilities (k,): `numpy.quantile`'s, to the last digit.

    One sort of every column takes a fifth of the time of numpy's partition around so many places.
    """
    rows = np.sort(np.ascontiguousarray(draws.T), axis=1)
    places = probabilities * (rows.shape[1] - 1)
    before = np.floor(places).astype(np.intp)
    share = places - before
    low, high = rows[:, before], rows[:, np.minimum(before + 1, rows.shape[1] - 1)]
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1.0 - share))
    return np.ascontiguousarray(found.T)


def mixture_sd(means: ArrayLike, sds: ArrayLike) -> Floats:
    """Return the standard deviation (n,) of the mixture of N(means[d], sds[d]^2), shapes as in `mixture_quantiles`."""
    centres, spreads = checked_mixture(means, sds)
    result: Floats = np.sqrt(centres.var(axis=0) + (spreads**2).mean(axis=0))
    return result


def checked_mixture(means: ArrayLike, sds: ArrayLike) -> tuple[Floats, Floats]:
    """Return means and standard deviations, both (draw, n), or raise InputError with what is wrong with them."""
    centres, spreads = np.asarray(means, dtype=np.float64), np.asarray(sds, dtype=np.float64)
    if centres.ndim != 2 or centres.shape[0] == 0:
        raise InputError(f"means has shape {centres.shape}. Accepted: (draw, structure) with at least one draw.")
    if spreads.shape not in (centres.shape[:1], centres.shape):
        raise InputError(f"sds has shape {spreads.shape}, means {centres.shape}. Accepted: sds (draw,) or (draw, n).")
    finite_means(centres)
    if not np.all(np.isfinite(spreads) & (spreads > 0)):
        raise InputError(f"sds holds {spreads.min():g}. Accepted: finite numbers above zero.")
    return centres, np.broadcast_to(spreads[:, None], centres.shape) if spreads.ndim == 1 else spreads


def finite_means(means: Floats) -> Floats:
    """Return the means, or raise InputError where one is not finite."""
    if not np.all(np.isfinite(means)):
        raise InputError(f"means holds {np.count_nonzero(~np.isfinite(means))} values that are not finite numbers.")
    return means


def _quantiles_of_one(means: Floats, sds: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k,) of one mixture with components (draw,)."""
    scores = ndtri(probabilities)
    ends = means + np.outer(scores, sds)  # every component's own quantile: the mixture's lies between the extremes
    low, high = ends.min(axis=1), ends.max(axis=1)
    grid = np.linspace(low.min(), high.max(), _GRID)
    cdf = ndtr((grid[:, None] - means) / sds).mean(axis=1)
    right = np.clip(np.searchsorted(cdf, probabilities), 1, _GRID - 1)
    low, high = np.maximum(low, grid[right - 1]), np.minimum(high, grid[right])
    x = np.clip(np.interp(scores, ndtri(np.clip(cdf, 1e-300, 1.0 - 1e-16)), grid), low, high)
    active = np.arange(probabilities.size)
    for _ in range(_MAX_STEPS):
        here = x[active]
        z = (here[:, None] - means) / sds
        value = ndtr(z).mean(axis=1)
        density = (np.exp(-0.5 * z**2) / sds).mean(axis=1)  # times sqrt(2 pi), as in the next line
        reached = ndtri(value)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moved = here - (reached - scores[active]) * np.exp(-0.5 * reached**2) / density
        below = value < probabilities[active]
        low[active] = np.where(below, here, low[active])
        high[active] = np.where(below, high[active], here)
        inside = (moved >= low[active]) & (moved <= high[active])  # False for NaN
        x[active] = np.where(inside, moved, 0.5 * (low[active] + high[active]))
        done = (np.abs(x[active] - here) < _TOLERANCE_EV) & inside | (high[active] - low[active] < _TOLERANCE_EV)
        active = active[~done]
        if not active.size:
            break
    return x
