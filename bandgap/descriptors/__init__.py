"""MBTR descriptors: settings, number of features and memory before computing, and the vectors themselves."""

from bandgap.descriptors.config import Estimate, MBTRConfig, Term, estimate, feature_blocks, n_features
from bandgap.descriptors.featurize import Descriptors, featurize
from bandgap.descriptors.presets import PRESETS, config_for

__all__ = [
    "PRESETS",
    "Descriptors",
    "Estimate",
    "MBTRConfig",
    "Term",
    "config_for",
    "estimate",
    "feature_blocks",
    "featurize",
    "n_features",
]
