"""Stratified normal scores for draws of the mean."""

import numpy as np
from scipy.special import ndtri

from bandgap.posterior.protocol import Floats


def stratified_scores(n_draws: int, n_scores: int, *, seed: int) -> Floats:
    """Return normal scores (draw of the scales, score), stratified over all of them."""
    rng = np.random.default_rng(seed)
    order = np.stack([rng.permutation(n_draws) for _ in range(n_scores)], axis=1)
    result: Floats = ndtri((np.arange(n_scores) + (order + 0.5) / n_draws) / n_scores)
    return result
