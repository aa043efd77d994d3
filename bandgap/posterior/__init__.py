"""Posteriors: their draws, predictions and stored form, one module for each kind.

The module of a kind is imported when a posterior of that kind is restored or named. Other packages
add kinds by entry points of the group `bandgap.posteriors`.

Not here: how posteriors are fitted (`transfer`, `inference`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.lazy import Registry, names_of
from bandgap.posterior.protocol import (
    Diagnostics,
    Floats,
    Posterior,
    PredictiveDraws,
    with_noise,
)
from bandgap.storage.stored_fields import restored_fields

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

# Classes of the kinds, and entry points of further kinds.
KINDS: Mapping[str, type[Posterior]] = Registry(
    {
        "network": f"{__name__}.network:NetworkPosterior",
        "scaled_network": f"{__name__}.network:ScaledNetworkPosterior",
        "last_layer": f"{__name__}.last_layer:LastLayerPosterior",
        "feature_gp": f"{__name__}.feature_gp:FeatureGPPosterior",
        "conformal": f"{__name__}.conformal:ConformalPosterior",
        "gaussian_process": f"{__name__}.gaussian_process:GaussianProcessPosterior",
        "parts_gp": f"{__name__}.parts_gp:PartsGPPosterior",
        "mixture": f"{__name__}.mixture:PosteriorMixture",
        "pool": f"{__name__}.pool:PooledPosterior",
        "baseline": f"{__name__}.baseline:BaselinePosterior",
        "metals": f"{__name__}.metals:MetalsPosterior",
    },
    group="bandgap.posteriors",
)


def restored_posterior(
    arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any], diagnostics: Diagnostics
) -> Posterior:
    """Build a posterior from its `stored_fields`.

    Raises ArtifactError for a kind that does not exist, and ValueError or KeyError for tensors that
    are not those of its fields.
    """
    cls = _class_of(plain.get("kind", "network"))
    posterior: Posterior = replace(
        restored_fields(cls, arrays, plain, class_of=_class_of), diagnostics=diagnostics
    )
    return posterior


def _class_of(kind: str) -> Any:
    if kind not in KINDS:
        raise ArtifactError(
            f"posterior of kind {kind!r} does not exist here. Install the package that has it; it "
            "names its class as an entry point of the group bandgap.posteriors. Installed: "
            f"{', '.join(KINDS)}."
        )
    return KINDS[kind]


__all__ = [
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
    "mix",
    "restored_posterior",
    "with_noise",
]

__getattr__ = names_of(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
