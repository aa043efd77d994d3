"""The draws of a posterior for the structures of several requests at once, each as if it had been asked for alone.

Whatever kind a posterior is of, a structure gets the same to the last bit beside whatever others: networks by compiled
loops (`draw_kernels`), the others by products of one shape (`foundation.fixed_blocks`). So one pass through all draws
serves every request.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.protocol import Posterior, PredictiveDraws


def draws_together(
    posterior: Posterior, requests: Sequence[NDArray[np.floating[Any]]]
) -> list[PredictiveDraws]:
    """Return the draws at the raw features (n, p) of every request, those of `predictive_draws` bit for bit."""
    if len(requests) < 2:
        return [posterior.predictive_draws(features) for features in requests]
    found = posterior.predictive_draws(np.concatenate(requests))
    ends = np.cumsum([len(features) for features in requests]).tolist()
    starts = [0, *ends[:-1]]
    return [_part(found, start, end) for start, end in zip(starts, ends, strict=True)]


def _part(found: PredictiveDraws, start: int, end: int) -> PredictiveDraws:
    own = slice(start, end)
    sds = found.sds_eV if found.sds_eV.ndim == 1 else np.ascontiguousarray(found.sds_eV[:, own])
    means, centres = (
        np.ascontiguousarray(found.means_eV[:, :, own]),
        np.ascontiguousarray(found.centres_eV[:, own]),
    )
    return PredictiveDraws(means, centres, sds)
