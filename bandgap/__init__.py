"""Band gaps of molecular crystals with intervals, by Bayesian transfer learning from molecules.

Importing the package computes nothing and loads nothing heavy: each public name is imported from its module when it is
first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bandgap.artifacts import load_run, load_source
    from bandgap.cache import DescriptorCache
    from bandgap.datasets.demo import demo_source_folder, load_demo, unlabelled_cifs
    from bandgap.datasets.labels import match_labels, read_labels
    from bandgap.descriptors import MBTRConfig, config_for, featurize
    from bandgap.errors import BandgapError
    from bandgap.predictions import Predictions
    from bandgap.runs import predict_run, transfer_run
    from bandgap.source_runs import LabelledSet, train_source_run, train_sources_run
    from bandgap.structures import read_paths, read_structures

__version__ = "0.1.0"

__all__ = [
    "BandgapError",
    "DescriptorCache",
    "LabelledSet",
    "MBTRConfig",
    "Predictions",
    "config_for",
    "demo_source_folder",
    "featurize",
    "load_demo",
    "load_run",
    "load_source",
    "match_labels",
    "predict_run",
    "read_labels",
    "read_paths",
    "read_structures",
    "train_source_run",
    "train_sources_run",
    "transfer_run",
    "unlabelled_cifs",
]

_MODULE_OF = {
    "BandgapError": "bandgap.errors",
    "DescriptorCache": "bandgap.cache",
    "LabelledSet": "bandgap.source_runs",
    "MBTRConfig": "bandgap.descriptors",
    "Predictions": "bandgap.predictions",
    "config_for": "bandgap.descriptors",
    "demo_source_folder": "bandgap.datasets.demo",
    "featurize": "bandgap.descriptors",
    "load_demo": "bandgap.datasets.demo",
    "load_run": "bandgap.artifacts",
    "load_source": "bandgap.artifacts",
    "match_labels": "bandgap.datasets.labels",
    "predict_run": "bandgap.runs",
    "read_labels": "bandgap.datasets.labels",
    "read_paths": "bandgap.structures",
    "read_structures": "bandgap.structures",
    "train_source_run": "bandgap.source_runs",
    "train_sources_run": "bandgap.source_runs",
    "transfer_run": "bandgap.runs",
    "unlabelled_cifs": "bandgap.datasets.demo",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bandgap' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return [*__all__, "__version__"]
