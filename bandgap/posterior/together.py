"""The draws of a posterior for the structures of several requests at once, each as if it had been asked for alone.

The compiled loops of a network give a structure the same to the last bit beside whatever others (`draw_kernels`), so
that one pass through all draws serves every request. Products of matrices are summed in another order where their
shapes are others: where a posterior rests on these, each request has its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.baseline import BaselinePosterior
from bandgap.posterior.mixture import PosteriorMixture
from bandgap.posterior.network import NetworkPosterior
from bandgap.posterior.protocol import Posterior, PredictiveDraws


def draws_together(posterior: Posterior, requests: Sequence[NDArray[np.floating[Any]]]) -> list[PredictiveDraws]:
    """Return the draws at the raw features (n, p) of every request, those of `predictive_draws` bit for bit."""
    if len(requests) < 2 or not stands_alone(posterior):
        return [posterior.predictive_draws(features) for features in requests]
    found = posterior.predictive_draws(np.concatenate(requests))
    ends = np.cumsum([len(features) for features in requests]).tolist()
    starts = [0, *ends[:-1]]
    return [_part(found, start, end) for start, end in zip(starts, ends, strict=True)]


def stands_alone(posterior: Posterior) -> bool:
    """Return whether what a posterior says of a structure does not depend, in no bit, on what it is asked beside."""
    match posterior:
        case NetworkPosterior():
            return posterior.by_row
        case BaselinePosterior():
            return stands_alone(posterior.rest)
        case PosteriorMixture():
            return all(map(stands_alone, posterior.members))
        case _:
            return False


def _part(found: PredictiveDraws, start: int, end: int) -> PredictiveDraws:
    own = slice(start, end)
    sds = found.sds_eV if found.sds_eV.ndim == 1 else np.ascontiguousarray(found.sds_eV[:, own])
    means, centres = np.ascontiguousarray(found.means_eV[:, :, own]), np.ascontiguousarray(found.centres_eV[:, own])
    return PredictiveDraws(means, centres, sds)
