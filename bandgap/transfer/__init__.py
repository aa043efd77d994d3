"""Transfer methods: one file each, one line each in the registry; shell, worker, pages and tests read it."""

from collections.abc import Mapping

from bandgap.errors import ConfigError
from bandgap.transfer import (
    bnn,
    btl_bnn,
    btl_pcp,
    ensemble,
    feature_gp,
    fine_tune,
    freeze,
    l2sp,
    nptl,
    nptl_head,
    nptl_soup,
    ptyl,
    sghmc,
    target_only,
    two_stage,
)
from bandgap.transfer.method import Method, TargetData

_ALL = (
    Method(
        "btl_pcp_pe",
        "all layers, Bayesian",
        "Bayesian transfer, penalized complexity",
        "Samples all layers around the molecule model; the data decide how far each layer moves.",
        "about 3 minutes for 200 crystals on 2 cores",
        btl_pcp.BtlPcpConfig,
        btl_pcp.fit,
    ),
    Method(
        "btl_bnn",
        "all layers, Bayesian",
        "Bayesian transfer, uninformative scales",
        "Samples all layers around the molecule model with prior scales that do not depend on it.",
        "about 8 minutes for 200 crystals on 2 cores",
        btl_bnn.BtlBnnConfig,
        btl_bnn.fit,
    ),
    Method(
        "bnn",
        "without transfer",
        "Bayesian network without transfer",
        "Samples all layers of a new network on the labelled crystals alone, to see what a transfer gains.",
        "about 8 minutes for 200 crystals on 2 cores",
        bnn.BnnConfig,
        bnn.fit,
    ),
    Method(
        "feature_gp",
        "output layer alone",
        "Gaussian process on the molecule model's features",
        "Keeps the molecule model's hidden layers; a Gaussian process learns from its features and the descriptor.",
        "seconds to 200 crystals, about a minute for 1,000",
        feature_gp.FeatureGPConfig,
        feature_gp.fit,
    ),
    Method(
        "nptl",
        "many trained networks",
        "Nonparametric transfer (NPTL)",
        "Trains many networks, each on a random weighting of the crystals and of what the molecule model says of them.",
        "about half a minute for 200 crystals on one core",
        nptl.NptlConfig,
        nptl.fit,
    ),
    Method(
        "nptl_head",
        "output layer alone",
        "Nonparametric transfer, output layer",
        "Keeps the molecule model's hidden layers and refits its output layer to randomly reweighted crystals.",
        "seconds",
        nptl_head.NptlHeadConfig,
        nptl_head.fit,
    ),
    Method(
        "nptl_soup",
        "many trained networks",
        "Nonparametric transfer, averaged",
        "Averages the weights of nonparametric transfer's networks into one; its intervals hold the noise alone.",
        "about half a minute for 200 crystals on one core",
        nptl_soup.NptlSoupConfig,
        nptl_soup.fit,
    ),
    Method(
        "ensemble",
        "many trained networks",
        "Ensemble of fine-tunings",
        "Trains several networks from the molecule model's weights that differ in the order of the crystals.",
        "seconds",
        ensemble.EnsembleConfig,
        ensemble.fit,
    ),
    Method(
        "l2sp",
        "many trained networks",
        "Fine-tuning near the source (L2SP)",
        "Trains several networks whose hidden layers are pulled to the molecule model's; the crystals say how hard.",
        "seconds",
        l2sp.L2SPConfig,
        l2sp.fit,
    ),
    Method(
        "ptyl",
        "many trained networks",
        "Fine-tuning under the source's own prior (PTYL)",
        "Trains several networks under a prior from snapshots of the molecule model's training, which it must have.",
        "about a minute for 200 crystals on one core",
        ptyl.PTYLConfig,
        ptyl.fit,
    ),
    Method(
        "sghmc",
        "many trained networks",
        "Stochastic-gradient sampling (SGHMC)",
        "Samples all layers around the molecule model by noisy gradients of small batches, at a low temperature.",
        "seconds",
        sghmc.SghmcConfig,
        sghmc.fit,
    ),
    Method(
        "fine_tune",
        "one trained network",
        "Fine-tuning",
        "Trains all layers from the molecule model's weights; one network, no posterior.",
        "seconds",
        fine_tune.FineTuneConfig,
        fine_tune.fit,
    ),
    Method(
        "two_stage",
        "one trained network",
        "Two-stage fine-tuning",
        "Trains the output layer from the molecule model's weights, then all layers; one network, no posterior.",
        "seconds",
        two_stage.TwoStageConfig,
        two_stage.fit,
    ),
    Method(
        "freeze",
        "output layer alone",
        "Frozen hidden layers",
        "Keeps the molecule model's hidden layers and refits its output layer; one network, no posterior.",
        "seconds",
        freeze.FreezeConfig,
        freeze.fit,
    ),
    Method(
        "target_only",
        "without transfer",
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
