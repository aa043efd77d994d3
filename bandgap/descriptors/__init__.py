"""MBTR descriptors: settings, number of features and memory before computing, and the vectors themselves."""

from bandgap.descriptors.config import (
    Estimate,
    MBTRConfig,
    Term,
    estimate,
    feature_blocks,
    feature_terms,
    n_features,
    n_levels,
    similarity_features,
)
from bandgap.descriptors.presets import PRESETS, config_for
from bandgap.descriptors.vectors import Descriptors, featurize

__all__ = [
    "PRESETS",
    "Descriptors",
    "Estimate",
    "MBTRConfig",
    "Term",
    "config_for",
    "estimate",
    "feature_blocks",
    "feature_terms",
    "featurize",
    "n_features",
    "n_levels",
    "similarity_features",
]
