"""Equal-weight mixtures of normal distributions: the predictive distribution of a new observation,
over draws.

Loads no torch.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]


def mixture_quantiles(
    means: ArrayLike,
    sds: ArrayLike,
    probabilities: ArrayLike,
    *,
    needed_rows: slice | NDArray[np.intp] = slice(None),
) -> Floats:
    """Return the quantiles of the equal-weight mixture of N(means[d], sds[d]^2) over draws, to
    1e-9.

    Mixtures whose components have similar widths, as in posteriors, are computed from densities at
    nodes (`smooth_mixtures`), the others from sums of tails (`uneven_mixtures`).

    Parameters
    ----------
    means
        Means of the components, (draw, n).
    sds
        Standard deviations of the components, (draw,) or (draw, n).
    probabilities
        Probabilities (k,) in (0, 1).
    needed_rows
        Indices of the probabilities whose quantiles are needed; others may be NaN. Components of
        very different places take 20 times as long for 199 quantiles as for four.

    Returns
    -------
    Floats
        Quantiles, (k, n).

    Raises
    ------
    InputError
        As `checked_mixture`.
    """
    centres, spreads = checked_mixture(means, sds)
    levels = np.asarray(probabilities, dtype=np.float64)
    # Imports numba, which the dashboard does not need.
    from bandgap.predictions.smooth_mixtures import smooth_quantiles

    n_needed = levels[needed_rows].size
    quantiles = smooth_quantiles(centres, spreads, levels, n_needed=n_needed)
    is_uneven = np.isnan(quantiles).any(axis=0)
    if is_uneven.any():
        from bandgap.predictions.uneven_mixtures import uneven_quantiles

        uneven = np.full((levels.size, np.count_nonzero(is_uneven)), np.nan)
        uneven[needed_rows] = uneven_quantiles(
            centres[:, is_uneven], spreads[:, is_uneven], levels[needed_rows]
        )
        quantiles[:, is_uneven] = uneven
    return quantiles


def draw_quantiles(draws: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k, n) of draws (draw, n) at probabilities (k,), bit for bit as
    `numpy.quantile`.
    """
    # Measured: sorting every column takes a fifth of the time of numpy's partition at so many
    # positions.
    rows = np.sort(by_structure(draws), axis=1)
    positions = probabilities * (rows.shape[1] - 1)
    below = np.floor(positions).astype(np.intp)
    fraction = positions - below
    low = rows[:, below]
    high = rows[:, np.minimum(below + 1, rows.shape[1] - 1)]
    step = high - low
    quantiles = np.where(fraction < 0.5, low + step * fraction, high - step * (1.0 - fraction))
    return np.ascontiguousarray(quantiles.T)


def mixture_sd(means: Floats, sds: Floats) -> Floats:
    """Return the standard deviation (n,) of the mixture of `mixture_quantiles`."""
    result: Floats = np.sqrt(by_structure(means).var(axis=1) + by_structure(sds**2).mean(axis=-1))
    return result


def by_structure(values: Floats) -> Floats:
    """Return values (draw, n) as contiguous rows (n, draw).

    The order in which numpy sums a row, and so its rounding, then does not depend on the number of
    rows.
    """
    return np.ascontiguousarray(values.T)


def checked_mixture(means: ArrayLike, sds: ArrayLike) -> tuple[Floats, Floats]:
    """Return means and standard deviations, both (draw, n); raises InputError for invalid ones."""
    centres = np.asarray(means, dtype=np.float64)
    spreads = np.asarray(sds, dtype=np.float64)
    if centres.ndim != 2 or centres.shape[0] == 0:
        raise InputError(
            f"means has shape {centres.shape}. Accepted: (draw, structure) with at least one draw."
        )
    if spreads.shape not in (centres.shape[:1], centres.shape):
        raise InputError(
            f"sds has shape {spreads.shape}, means {centres.shape}. Accepted: sds (draw,) or "
            "(draw, n)."
        )
    if not np.all(np.isfinite(centres)):
        raise InputError(
            f"means contains {np.count_nonzero(~np.isfinite(centres))} values that are not finite "
            "numbers."
        )
    if not np.all(np.isfinite(spreads) & (spreads > 0)):
        raise InputError(f"sds contains {spreads.min():g}. Accepted: finite numbers above zero.")
    return centres, np.broadcast_to(
        spreads[:, None], centres.shape
    ) if spreads.ndim == 1 else spreads
