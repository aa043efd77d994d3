"""Posteriors: what a transfer returns, what it predicts, and how it is stored. One file a kind, one line here.

Not here: how it was fitted.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.posterior.baseline import Baseline, BaselinePosterior
from bandgap.posterior.conformal import ConformalPosterior
from bandgap.posterior.deep_kernel import DeepKernelPosterior
from bandgap.posterior.factorised_network import FactorisedNetworkPosterior
from bandgap.posterior.feature_gp import FeatureGPPosterior
from bandgap.posterior.gaussian_process import GaussianProcessPosterior
from bandgap.posterior.last_layer import LastLayerPosterior
from bandgap.posterior.mixture import PosteriorMixture, mix
from bandgap.posterior.network import NetworkPosterior, ScaledNetworkPosterior
from bandgap.posterior.parts_gp import PartsGPPosterior
from bandgap.posterior.pool import PooledPosterior
from bandgap.posterior.protocol import (
    Diagnostics,
    Floats,
    Posterior,
    PredictiveDraws,
    StoredPosterior,
    part,
    with_noise,
)

_KINDS: tuple[type[StoredPosterior], ...] = (
    NetworkPosterior,
    ScaledNetworkPosterior,
    LastLayerPosterior,
    FeatureGPPosterior,
    ConformalPosterior,
    GaussianProcessPosterior,
    FactorisedNetworkPosterior,
    DeepKernelPosterior,
    PartsGPPosterior,
)
KINDS: Mapping[str, type[StoredPosterior]] = {kind.kind: kind for kind in _KINDS}


def restore_posterior(
    arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics
) -> Posterior:
    """Build the posterior that `to_arrays` and `scalars` describe; `scalars` hold its kind (default: network).

    Raises InputError for a kind that does not exist.
    """
    kind = scalars.get("kind", NetworkPosterior.kind)
    if kind in (PosteriorMixture.kind, PooledPosterior.kind):
        members = [
            restore_posterior(part(arrays, f"{i}."), scalars=own, diagnostics=Diagnostics())
            for i, own in enumerate(scalars["members"])
        ]
        if kind == PooledPosterior.kind:
            return PooledPosterior.around(members, scalars=scalars, diagnostics=diagnostics)
        return PosteriorMixture(tuple(members), diagnostics)
    if kind == BaselinePosterior.kind:
        rest = restore_posterior(arrays, scalars=scalars["rest"], diagnostics=Diagnostics())
        return BaselinePosterior.around(rest, scalars=scalars, diagnostics=diagnostics)
    if kind not in KINDS:
        accepted = ", ".join([*KINDS, PosteriorMixture.kind, PooledPosterior.kind, BaselinePosterior.kind])
        raise InputError(f"posterior of kind {kind!r} does not exist here. Accepted: {accepted}.")
    return KINDS[kind].from_arrays(arrays, scalars=scalars, diagnostics=diagnostics)


__all__ = [
    "KINDS",
    "Baseline",
    "BaselinePosterior",
    "ConformalPosterior",
    "DeepKernelPosterior",
    "Diagnostics",
    "FactorisedNetworkPosterior",
    "FeatureGPPosterior",
    "Floats",
    "GaussianProcessPosterior",
    "LastLayerPosterior",
    "NetworkPosterior",
    "PartsGPPosterior",
    "PooledPosterior",
    "Posterior",
    "PosteriorMixture",
    "PredictiveDraws",
    "ScaledNetworkPosterior",
    "mix",
    "restore_posterior",
    "with_noise",
]
