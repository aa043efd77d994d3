"""Descriptors: settings, number of features and memory before computing, and the vectors themselves.

Not here: what a network or a kernel makes of them.
"""

from typing import TYPE_CHECKING

from bandgap.foundation.lazy import names_of

if TYPE_CHECKING:
    from bandgap.descriptors.config import (
        DescriptorConfig,
        Estimate,
        MBTRConfig,
        Term,
        estimate,
        feature_blocks,
        feature_terms,
        n_features,
        similarity_features,
    )
    from bandgap.descriptors.presets import PRESETS, config_for, descriptor_for
    from bandgap.descriptors.vectors import Descriptors, featurize

__all__ = [
    "PRESETS",
    "DescriptorConfig",
    "Descriptors",
    "Estimate",
    "MBTRConfig",
    "Term",
    "config_for",
    "descriptor_for",
    "estimate",
    "feature_blocks",
    "feature_terms",
    "featurize",
    "n_features",
    "similarity_features",
]

_VECTORS, _PRESETS = ("Descriptors", "featurize"), ("PRESETS", "config_for", "descriptor_for")
__getattr__ = names_of(
    __name__,
    dict.fromkeys(__all__, "bandgap.descriptors.config")
    | dict.fromkeys(_PRESETS, "bandgap.descriptors.presets")
    | dict.fromkeys(_VECTORS, "bandgap.descriptors.vectors"),
)
