"""How far structures are from the training rows, for posteriors with a kernel on deep features."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.baseline import BaselinePosterior
from bandgap.posterior.metals import MetalsPosterior
from bandgap.posterior.mixture import PosteriorMixture
from bandgap.posterior.protocol import Floats, Posterior

# Share of the process's sd, nine tenths of its variance, above which the training rows hardly
# constrain a prediction.
FAR = 0.95


@runtime_checkable
class HasFarShare(Protocol):
    """A posterior that knows how far structures are from its training rows."""

    def far_share(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the sd of the noise-free gap relative to that far from all data, (n,)."""
        ...


def far_shares(posterior: Posterior, features: NDArray[np.floating[Any]]) -> Floats | None:
    """Return the sd of the noise-free gap relative to that far from all data, (n,).

    `features` are raw features (n, p).

    For a mixture this is the smallest share of any member; for posteriors of another kind it is
    None.
    """
    if isinstance(posterior, BaselinePosterior):
        return far_shares(posterior.residual, features[:, : posterior.baseline.n_features])
    if isinstance(posterior, MetalsPosterior):
        return far_shares(posterior.semiconductors, features)
    if isinstance(posterior, PosteriorMixture):
        parts = [
            part
            for member in posterior.members
            if (part := far_shares(member, features)) is not None
        ]
        return np.asarray(np.min(parts, axis=0)) if len(parts) == len(posterior.members) else None
    return posterior.far_share(features) if isinstance(posterior, HasFarShare) else None
