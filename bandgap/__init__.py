"""Band gaps of crystals with intervals, by Bayesian transfer learning from a source model.

Importing the package loads no heavy module: each public name is imported from its module when it is
used for the first time.
"""

from typing import TYPE_CHECKING

from bandgap.foundation.lazy import names_of

if TYPE_CHECKING:
    from bandgap.datasets.demo import demo_source_folder, load_demo, unlabelled_cifs
    from bandgap.datasets.labels import match_labels, read_labels
    from bandgap.datasets.table import LabelledSet
    from bandgap.descriptors import DescriptorConfig, config_for, featurize
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.foundation.errors import BandgapError
    from bandgap.predictions.table import Predictions
    from bandgap.runs.explanation import explain_predictions
    from bandgap.runs.html_report import write_report
    from bandgap.runs.learning_curve import measure_learning_curve
    from bandgap.runs.model import load_model
    from bandgap.runs.prediction import predict_run
    from bandgap.runs.proposal import propose_for
    from bandgap.runs.refit import refit_run
    from bandgap.runs.regressor import BandGapRegressor
    from bandgap.runs.requests import PredictRequest, SourceRequest, TransferRequest
    from bandgap.runs.source import train_source_run
    from bandgap.runs.stored import load_run
    from bandgap.runs.transfer import transfer_run
    from bandgap.sources.stored import load_source
    from bandgap.sources.training import train_sources_run
    from bandgap.structures import as_records, read_paths, read_structures

__version__ = "0.1.0"

__all__ = [
    "BandGapRegressor",
    "BandgapError",
    "DescriptorCache",
    "DescriptorConfig",
    "LabelledSet",
    "PredictRequest",
    "Predictions",
    "SourceRequest",
    "TransferRequest",
    "as_records",
    "config_for",
    "demo_source_folder",
    "explain_predictions",
    "featurize",
    "load_demo",
    "load_model",
    "load_run",
    "load_source",
    "match_labels",
    "measure_learning_curve",
    "predict_run",
    "propose_for",
    "read_labels",
    "read_paths",
    "read_structures",
    "refit_run",
    "train_source_run",
    "train_sources_run",
    "transfer_run",
    "unlabelled_cifs",
    "write_report",
]

_MODULE_OF = {
    "BandGapRegressor": "bandgap.runs.regressor",
    "BandgapError": "bandgap.foundation.errors",
    "DescriptorCache": "bandgap.descriptors.cache",
    "LabelledSet": "bandgap.datasets.table",
    "DescriptorConfig": "bandgap.descriptors",
    "PredictRequest": "bandgap.runs.requests",
    "Predictions": "bandgap.predictions.table",
    "SourceRequest": "bandgap.runs.requests",
    "TransferRequest": "bandgap.runs.requests",
    "as_records": "bandgap.structures",
    "config_for": "bandgap.descriptors",
    "demo_source_folder": "bandgap.datasets.demo",
    "explain_predictions": "bandgap.runs.explanation",
    "featurize": "bandgap.descriptors",
    "load_demo": "bandgap.datasets.demo",
    "load_model": "bandgap.runs.model",
    "load_run": "bandgap.runs.stored",
    "load_source": "bandgap.sources.stored",
    "match_labels": "bandgap.datasets.labels",
    "measure_learning_curve": "bandgap.runs.learning_curve",
    "predict_run": "bandgap.runs.prediction",
    "propose_for": "bandgap.runs.proposal",
    "read_labels": "bandgap.datasets.labels",
    "read_paths": "bandgap.structures",
    "read_structures": "bandgap.structures",
    "refit_run": "bandgap.runs.refit",
    "train_source_run": "bandgap.runs.source",
    "train_sources_run": "bandgap.sources.training",
    "transfer_run": "bandgap.runs.transfer",
    "unlabelled_cifs": "bandgap.datasets.demo",
    "write_report": "bandgap.runs.html_report",
}

__getattr__ = names_of(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    """List the public names."""
    return [*__all__, "__version__"]
