"""Equal-weight mixtures of normal distributions: the predictive distribution of a new observation, over draws.

Loads no torch.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]


def mixture_quantiles(means: ArrayLike, sds: ArrayLike, probabilities: ArrayLike) -> Floats:
    """Return the quantiles (k, n) of the equal-weight mixture of N(means[d], sds[d]^2) over draws, to 1e-9.

    `means` has shape (draw, n), `sds` (draw,) or (draw, n), `probabilities` (k,) inside (0, 1). All are found by
    compiled loops: those of components that are about as wide as each other, as in posteriors, from densities at nodes
    (`smooth_mixtures`), the others from sums of tails (`uneven_mixtures`).

    Raises InputError on other shapes, on values that are not finite, and on standard deviations that are not positive.
    """
    centres, spreads = checked_mixture(means, sds)
    wanted = np.asarray(probabilities, dtype=np.float64)
    if wanted.ndim != 1 or not np.all((wanted > 0) & (wanted < 1)):
        raise InputError(f"probabilities: found {probabilities!r}. Accepted: one row of numbers inside (0, 1).")
    from bandgap.predictions.smooth_mixtures import smooth_quantiles  # loads numba, which pages do without
    from bandgap.predictions.uneven_mixtures import uneven_quantiles

    quantiles = smooth_quantiles(centres, spreads, wanted)
    left = np.isnan(quantiles).any(axis=0)
    if left.any():
        quantiles[:, left] = uneven_quantiles(centres[:, left], spreads[:, left], wanted)
    return quantiles


def draw_quantiles(draws: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k, n) of draws (draw, n) at probabilities (k,): `numpy.quantile`'s, to the last digit.

    One sort of every column takes a fifth of the time of numpy's partition around so many places.
    """
    rows = np.sort(by_structure(draws), axis=1)
    places = probabilities * (rows.shape[1] - 1)
    before = np.floor(places).astype(np.intp)
    share = places - before
    low, high = rows[:, before], rows[:, np.minimum(before + 1, rows.shape[1] - 1)]
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1.0 - share))
    return np.ascontiguousarray(found.T)


def mixture_sd(means: ArrayLike, sds: ArrayLike) -> Floats:
    """Return the standard deviation (n,) of the mixture of N(means[d], sds[d]^2), shapes as in `mixture_quantiles`."""
    centres, spreads = checked_mixture(means, sds)
    result: Floats = np.sqrt(by_structure(centres).var(axis=1) + by_structure(spreads**2).mean(axis=1))
    return result


def by_structure(values: Floats) -> Floats:
    """Return values (draw, n) as rows (n, draw): numpy adds each in one order, however many stand beside it."""
    return np.ascontiguousarray(values.T)


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
