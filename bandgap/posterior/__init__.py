"""Posteriors: their draws, predictions and stored form, one module for each kind.

The module of a kind is imported when a posterior of that kind is restored or named. Other packages
add kinds by entry points of the group `bandgap.posteriors`.

Not here: how posteriors are fitted (`transfer`, `inference`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.foundation.lazy import Registry, names_of
from bandgap.posterior.protocol import (
    Diagnostics,
    Floats,
    Posterior,
    PredictiveDraws,
    StoredPosterior,
    part,
    with_noise,
)

if TYPE_CHECKING:
    from bandgap.posterior.baseline import Baseline, BaselinePosterior
    from bandgap.posterior.conformal import ConformalPosterior
    from bandgap.posterior.feature_gp import FeatureGPPosterior
    from bandgap.posterior.gaussian_process import GaussianProcessPosterior
    from bandgap.posterior.last_layer import LastLayerPosterior
    from bandgap.posterior.metal_classifier import MetalClassifier
    from bandgap.posterior.metals import MetalsPosterior
    from bandgap.posterior.mixture import PosteriorMixture, mix
    from bandgap.posterior.network import NetworkPosterior, ScaledNetworkPosterior
    from bandgap.posterior.parts_gp import PartsGPPosterior
    from bandgap.posterior.pool import PooledPosterior

_MODULES = {
    "Baseline": "baseline",
    "BaselinePosterior": "baseline",
    "ConformalPosterior": "conformal",
    "FeatureGPPosterior": "feature_gp",
    "GaussianProcessPosterior": "gaussian_process",
    "LastLayerPosterior": "last_layer",
    "MetalClassifier": "metal_classifier",
    "MetalsPosterior": "metals",
    "NetworkPosterior": "network",
    "PartsGPPosterior": "parts_gp",
    "PooledPosterior": "pool",
    "PosteriorMixture": "mixture",
    "ScaledNetworkPosterior": "network",
    "mix": "mixture",
}

# Classes of the kinds that contain no other posterior, and entry points of further kinds.
KINDS: Mapping[str, type[StoredPosterior]] = Registry(
    {
        "network": f"{__name__}.network:NetworkPosterior",
        "scaled_network": f"{__name__}.network:ScaledNetworkPosterior",
        "last_layer": f"{__name__}.last_layer:LastLayerPosterior",
        "feature_gp": f"{__name__}.feature_gp:FeatureGPPosterior",
        "conformal": f"{__name__}.conformal:ConformalPosterior",
        "gaussian_process": f"{__name__}.gaussian_process:GaussianProcessPosterior",
        "parts_gp": f"{__name__}.parts_gp:PartsGPPosterior",
    },
    group="bandgap.posteriors",
)
CONTAINERS = ("mixture", "pool", "baseline", "metals")


def restore_posterior(
    arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics
) -> Posterior:
    """Build the posterior that `to_arrays` and `scalars` describe.

    `scalars` contain its kind (default: network). Raises InputError for a kind that does not exist.
    """
    kind = scalars.get("kind", "network")
    if kind in CONTAINERS:
        return _restore_container(kind, arrays, scalars=scalars, diagnostics=diagnostics)
    if kind not in KINDS:
        accepted = ", ".join([*KINDS, *CONTAINERS])
        raise InputError(f"posterior of kind {kind!r} does not exist here. Accepted: {accepted}.")
    return KINDS[kind].from_arrays(arrays, scalars=scalars, diagnostics=diagnostics)


def _restore_container(
    kind: str, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics
) -> Posterior:
    """Build a posterior that contains others."""
    from bandgap.posterior.baseline import BaselinePosterior
    from bandgap.posterior.mixture import PosteriorMixture
    from bandgap.posterior.pool import PooledPosterior

    if kind == "metals":
        from bandgap.posterior.metals import CLASSIFIER, SEMICONDUCTORS, MetalsPosterior

        semiconductors = restore_posterior(
            part(arrays, SEMICONDUCTORS),
            scalars=scalars["semiconductors"],
            diagnostics=Diagnostics(),
        )
        return MetalsPosterior.around(
            semiconductors, part(arrays, CLASSIFIER), scalars=scalars, diagnostics=diagnostics
        )
    if kind == "baseline":
        residual = restore_posterior(arrays, scalars=scalars["rest"], diagnostics=Diagnostics())
        return BaselinePosterior.around(residual, scalars=scalars, diagnostics=diagnostics)
    members = [
        restore_posterior(part(arrays, f"{i}."), scalars=member, diagnostics=Diagnostics())
        for i, member in enumerate(scalars["members"])
    ]
    if kind == "pool":
        return PooledPosterior.around(members, scalars=scalars, diagnostics=diagnostics)
    return PosteriorMixture(tuple(members), diagnostics)


__all__ = [
    "CONTAINERS",
    "KINDS",
    "Baseline",
    "BaselinePosterior",
    "ConformalPosterior",
    "Diagnostics",
    "FeatureGPPosterior",
    "Floats",
    "GaussianProcessPosterior",
    "LastLayerPosterior",
    "MetalClassifier",
    "MetalsPosterior",
    "NetworkPosterior",
    "PartsGPPosterior",
    "PooledPosterior",
    "Posterior",
    "PosteriorMixture",
    "PredictiveDraws",
    "ScaledNetworkPosterior",
    "StoredPosterior",
    "mix",
    "part",
    "restore_posterior",
    "with_noise",
]

__getattr__ = names_of(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
