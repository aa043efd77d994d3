"""R-hat, effective sample size and E-BFMI of draws (chain, draw, ...) (Vehtari et al., 2021).

arviz-stats computes the first two. It is imported where it is used, because the import is slow and
predictions do not need it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rhat(draws: NDArray[Any]) -> Floats:
    """Return the rank-normalised split R-hat (...) of draws (chain, draw, ...)."""
    return _statistic("rhat", draws)


def ess_bulk(draws: NDArray[Any]) -> Floats:
    """Return the bulk effective sample size (...) of draws (chain, draw, ...)."""
    return _statistic("ess", draws)


def mean_error(draws: NDArray[Any]) -> Floats:
    """Return the Monte-Carlo standard error (...) of the mean of draws (chain, draw, ...)."""
    return _statistic("mcse", draws, method="mean")


def ebfmi(energy: NDArray[Any]) -> Floats:
    """Return the Bayesian fraction of missing information (chain,) of energies (chain, draw).

    It is the mean squared change of the energy between draws over its variance. Below about 0.3 the
    momenta are too small a part of the energy for the chain to reach the tails (Betancourt, 2016,
    section 2.2).
    """
    wide = np.asarray(energy, dtype=np.float64)
    change = np.diff(wide, axis=1) ** 2
    return np.asarray(change.mean(1) / wide.var(1), dtype=np.float64)


def _statistic(name: str, draws: NDArray[Any], **settings: str) -> Floats:
    from arviz_stats.base.array import array_stats

    statistic: Any = getattr(array_stats, name)
    wide = np.asarray(draws, dtype=np.float64)
    return np.asarray(statistic(wide, chain_axis=0, draw_axis=1, **settings), dtype=np.float64)
