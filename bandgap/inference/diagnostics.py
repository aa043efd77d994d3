"""R-hat and effective sample size of draws (chain, draw, ...), by arviz-stats (Vehtari et al., 2021); E-BFMI."""

from functools import partial
from typing import Any

import numpy as np
from arviz_stats.base.array import array_stats
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rhat(draws: NDArray[Any]) -> Floats:
    """Return the rank-normalised split R-hat of every quantity of draws (chain, draw, ...), of shape (...)."""
    return _each(array_stats.rhat, draws)


def ess_bulk(draws: NDArray[Any]) -> Floats:
    """Return the bulk effective sample size of every quantity of draws (chain, draw, ...), of shape (...)."""
    return _each(array_stats.ess, draws)


def mean_error(draws: NDArray[Any]) -> Floats:
    """Return the Monte-Carlo standard error of the mean of every quantity of draws (chain, draw, ...), (...)."""
    return _each(partial(array_stats.mcse, method="mean"), draws)


def ebfmi(energy: NDArray[Any]) -> Floats:
    """Return the Bayesian fraction of missing information of energies (chain, draw), of shape (chain,).

    The mean squared change of the energy between draws over its variance; below about 0.3 the momenta are too small a
    part of the energy for the chain to reach the tails (Betancourt, 2016, section 2.2).
    """
    wide = np.asarray(energy, dtype=np.float64)
    change = np.diff(wide, axis=1) ** 2
    return np.asarray(change.mean(1) / wide.var(1), dtype=np.float64)


def _each(statistic: Any, draws: NDArray[Any]) -> Floats:
    wide = np.asarray(draws, dtype=np.float64)
    return np.asarray(statistic(wide, chain_axis=0, draw_axis=1), dtype=np.float64)
