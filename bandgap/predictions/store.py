"""The folder of one prediction: the table, all quantiles, details for the pages, and the structures as extXYZ.

Numbers are stored as safetensors, texts as JSON in its metadata; nothing is ever unpickled. Loads no torch.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.damage import DAMAGE, parse_json
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.tensor_files import LongTensor, mapped_tensors, write_tensors
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.details import KEPT, ROWS, PredictionDetails
from bandgap.predictions.table import LEVELS, NUMBERS, TEXTS, Predictions

PREDICTIONS_CSV, QUANTILES = "predictions.csv", "quantiles.safetensors"  # names of the files of a prediction
DETAILS, EXTXYZ = "details.safetensors", "predictions.extxyz"
FORMAT, DETAILS_FORMAT = "bandgap-predictions-1", "bandgap-prediction-details-1"
SCORES = "conformal_scores"  # name of the array, and of its ids among the metadata


def save_predictions(path: Path | str, predictions: Predictions) -> None:
    """Write predictions with all their quantiles to one safetensors file (float64, 3.2 kB per structure).

    The scores of a run's held-back structures are written where there are some.
    """
    texts: dict[str, tuple[str, ...]] = {name: getattr(predictions, name) for name in TEXTS}
    metadata = {"format": FORMAT, "texts": json.dumps(texts), "level_of_theory": predictions.level_of_theory}
    arrays = {name: np.asarray(getattr(predictions, name), dtype=np.float64) for name in NUMBERS}
    if predictions.conformal is not None:
        arrays[SCORES] = np.asarray(predictions.conformal.scores, dtype=np.float64)
        metadata[SCORES] = json.dumps(predictions.conformal.ids)
    write_tensors(Path(path), {k: LongTensor.of(array) for k, array in arrays.items()}, metadata=metadata)


def load_predictions(path: Path | str) -> Predictions:
    """Read what `save_predictions` wrote; its numbers are read from the file when they are looked at.

    Raises ArtifactError where the file is absent, damaged or of another format.
    """
    with _opened(path, FORMAT, f"stored predictions with {LEVELS.size} quantiles") as (metadata, arrays):
        once: dict[str, str] = {}  # most rows have the words of others
        texts: dict[str, Any] = {
            name: tuple(once.setdefault(text, text) for text in values)
            for name, values in parse_json(metadata["texts"], what="texts").items()
        }
        scores = arrays.pop(SCORES, None)
        conformal = None
        if scores is not None:
            ids = parse_json(metadata[SCORES], what="ids of the scores")
            conformal = ConformalScores(tuple(ids), scores)
        return Predictions(**texts, **arrays, level_of_theory=metadata["level_of_theory"], conformal=conformal)


def save_details(path: Path | str, details: PredictionDetails) -> None:
    """Write details to one safetensors file."""
    arrays = {name: LongTensor.of(getattr(details, name)) for name in (*ROWS, *KEPT)}
    write_tensors(Path(path), arrays, metadata={"format": DETAILS_FORMAT, "nearest": json.dumps(details.nearest)})


def load_details(path: Path | str) -> PredictionDetails:
    """Read what `save_details` wrote.

    Raises ArtifactError where the file is absent, damaged or of another format.
    """
    with _opened(path, DETAILS_FORMAT, "details of predictions") as (metadata, arrays):
        own = {name: arrays[name] for name in (*ROWS, *KEPT)}
        nearest = parse_json(metadata["nearest"], what="nearest structures")
        return PredictionDetails(nearest=tuple(nearest), **own)


@contextmanager
def _opened(path: Path | str, form: str, what: str) -> Iterator[tuple[Mapping[str, str], dict[str, Any]]]:
    """Give the metadata and the arrays of a file; raises ArtifactError for what is wrong, also with their use."""
    try:
        metadata, arrays = mapped_tensors(Path(path))
        if metadata.get("format") != form:
            raise ArtifactError(f"{path}: format is {metadata.get('format')!r}, expected {form!r}.")
        yield metadata, arrays
    except (*DAMAGE, InputError) as error:
        raise ArtifactError(f"{path}: not readable as {what} ({error}). Run predict again.") from error
