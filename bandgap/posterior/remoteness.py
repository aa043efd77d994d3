"""How much the training rows tell about structures, of posteriors that know it: those of a kernel on deep features."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.baseline import BaselinePosterior
from bandgap.posterior.deep_kernel import DeepKernelPosterior
from bandgap.posterior.mixture import PosteriorMixture
from bandgap.posterior.protocol import Floats, Posterior

FAR = 0.95  # of the process's sd, that is nine tenths of its variance, and the training rows tell next to nothing


def far_shares(posterior: Posterior, features: NDArray[np.floating[Any]]) -> Floats | None:
    """Return the sd of the noise-free gap over that far from all data, (n,), for raw features (n, p).

    None of posteriors of another kind. In a mixture, the least of any member.
    """
    if isinstance(posterior, BaselinePosterior):
        return far_shares(posterior.rest, features[:, : posterior.baseline.n_features])
    if isinstance(posterior, PosteriorMixture):
        parts = [
            part
            for member in posterior.members
            if (part := far_shares(member, features)) is not None
        ]
        return np.asarray(np.min(parts, axis=0)) if len(parts) == len(posterior.members) else None
    return posterior.far_share(features) if isinstance(posterior, DeepKernelPosterior) else None
