"""Transfer methods: one file each, one line each in the registry; shell, worker, pages and tests read it."""

from collections.abc import Mapping

from bandgap.errors import ConfigError
from bandgap.transfer import btl_pcp, feature_gp, fine_tune, freeze, target_only, two_stage
from bandgap.transfer.method import Method, TargetData

_ALL = (
    Method(
        "btl_pcp_pe",
        "Bayesian transfer, penalized complexity",
        "Samples all layers around the molecule model; the data decide how far each layer moves.",
        "about 3 minutes for 200 crystals on 2 cores",
        btl_pcp.BtlPcpConfig,
        btl_pcp.fit,
    ),
    Method(
        "feature_gp",
        "Gaussian process on the molecule model's features",
        "Keeps the molecule model's hidden layers; a Gaussian process learns from its features and the descriptor.",
        "seconds to 200 crystals, about a minute for 1,000",
        feature_gp.FeatureGPConfig,
        feature_gp.fit,
    ),
    Method(
        "fine_tune",
        "Fine-tuning",
        "Trains all layers from the molecule model's weights; one network, no posterior.",
        "seconds",
        fine_tune.FineTuneConfig,
        fine_tune.fit,
    ),
    Method(
        "two_stage",
        "Two-stage fine-tuning",
        "Trains the output layer from the molecule model's weights, then all layers; one network, no posterior.",
        "seconds",
        two_stage.TwoStageConfig,
        two_stage.fit,
    ),
    Method(
        "freeze",
        "Frozen hidden layers",
        "Keeps the molecule model's hidden layers and refits its output layer; one network, no posterior.",
        "seconds",
        freeze.FreezeConfig,
        freeze.fit,
    ),
    Method(
        "target_only",
        "Without transfer",
        "Trains a new network on the labelled crystals alone, to see what a transfer gains; no posterior.",
        "seconds",
        target_only.TargetOnlyConfig,
        target_only.fit,
    ),
)

METHODS: Mapping[str, Method] = {method.name: method for method in _ALL}


def get_method(name: str) -> Method:
    """Return the method of this name; raises ConfigError that lists the names."""
    if name not in METHODS:
        raise ConfigError(f"transfer method {name!r} does not exist. Accepted: {', '.join(METHODS)}.")
    return METHODS[name]


__all__ = ["METHODS", "Method", "TargetData", "get_method"]
