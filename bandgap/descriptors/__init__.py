"""Descriptors: settings, number of features and memory, and the feature vectors of structures.

Not here: networks and kernels that use the vectors.
"""

from typing import TYPE_CHECKING

from bandgap.foundation.lazy import names_of

if TYPE_CHECKING:
    from bandgap.descriptors.config import (
        DescriptorConfig,
        Term,
        feature_blocks,
        feature_bytes,
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
    "Term",
    "config_for",
    "descriptor_for",
    "feature_blocks",
    "feature_bytes",
    "feature_terms",
    "featurize",
    "n_features",
    "similarity_features",
]

_OF_PRESETS = ("PRESETS", "config_for", "descriptor_for")
_OF_VECTORS = ("Descriptors", "featurize")
__getattr__ = names_of(
    __name__,
    dict.fromkeys(__all__, "bandgap.descriptors.config")
    | dict.fromkeys(_OF_PRESETS, "bandgap.descriptors.presets")
    | dict.fromkeys(_OF_VECTORS, "bandgap.descriptors.vectors"),
)
