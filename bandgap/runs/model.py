"""A stored run that is loaded once and predicts many times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bandgap.datasets.shipped_models import about_sentences, find_model
from bandgap.descriptors.cache import DescriptorCache
from bandgap.predictions.table import Predictions
from bandgap.runs.prediction import as_requested, load_for, predict_records
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import Run
from bandgap.structures import as_records

if TYPE_CHECKING:
    from bandgap.evaluation.calibrators import Calibrator


@dataclass(frozen=True, eq=False)
class Model:
    """A loaded run with its calibrator, if it has one.

    `notes` are sentences on a shipped model: its error, and what to do next.
    """

    run: Run
    calibrator: Calibrator | None
    notes: tuple[str, ...]

    def predict(self, structures: object, *, cache: DescriptorCache | None = None) -> Predictions:
        """Predict the gaps of structures, as `predict_run`."""
        predictions, _ = predict_records(self.run, as_records(structures), cache=cache)
        return as_requested(predictions, self.calibrator, PredictRequest())


def load_model(model: Path | str) -> Model:
    """Load a run by its folder or hf://OWNER/NAME, or a shipped model by its name, such as "pbe".

    Raises ArtifactError where there is no such folder or model, or it is damaged, and ConfigError
    where an extra that it needs is not installed.

    >>> import bandgap
    >>> predictions = bandgap.load_model("pbe").predict(bandgap.unlabelled_cifs()[0])
    >>> predictions.level_of_theory
    'PBE'
    """
    model_folder = find_model(model)
    run, calibrator = load_for(model_folder.path, PredictRequest())
    notes = tuple(filter(None, (model_folder.note, *about_sentences(run.manifest))))
    return Model(run, calibrator, notes)
