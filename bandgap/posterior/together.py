"""Predictive draws for the structures of several requests in one pass through a posterior.

The draws of a structure do not depend on the structures predicted with it. Networks are evaluated
row by row (`draw_kernels`), other kinds by matrix products of a fixed shape
(`foundation.fixed_blocks`). So one pass serves every request.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.protocol import Posterior, PredictiveDraws


def draws_together(
    posterior: Posterior, requests: Sequence[NDArray[np.floating[Any]]]
) -> list[PredictiveDraws]:
    """Return the predictive draws of every request.

    They are those of `predictive_draws` for the request alone, to 1e-6 eV.

    Parameters
    ----------
    requests
        The raw features of each request, (n, p).
    """
    if len(requests) < 2:
        return [posterior.predictive_draws(features) for features in requests]
    draws = posterior.predictive_draws(np.concatenate(requests))
    ends = np.cumsum([len(features) for features in requests]).tolist()
    starts = [0, *ends[:-1]]
    return [_rows_of(draws, slice(start, end)) for start, end in zip(starts, ends, strict=True)]


def _rows_of(draws: PredictiveDraws, rows: slice) -> PredictiveDraws:
    """Return the draws of some structures as contiguous arrays."""
    sds_eV = draws.sds_eV
    if sds_eV.ndim == 2:
        sds_eV = np.ascontiguousarray(sds_eV[:, rows])
    return PredictiveDraws(
        means_eV=np.ascontiguousarray(draws.means_eV[:, :, rows]),
        centres_eV=np.ascontiguousarray(draws.centres_eV[:, rows]),
        sds_eV=sds_eV,
        p_metal=None if draws.p_metal is None else np.ascontiguousarray(draws.p_metal[rows]),
    )
