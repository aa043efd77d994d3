"""The folder of one prediction: the table, all quantiles, details for the dashboard, and the
structures.

Numbers are stored as safetensors and texts as JSON in its metadata, without pickle. Loads no torch.
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
from bandgap.predictions.details import JOINT, ROWS, PredictionDetails
from bandgap.predictions.table import DOMAIN_P, LEVELS, NUMBERS, P_METAL, TEXTS, Predictions

PREDICTIONS_CSV = "predictions.csv"  # names of the files of a prediction
QUANTILES = "quantiles.safetensors"
DETAILS = "details.safetensors"
EXTXYZ = "predictions.extxyz"
FORMAT = "bandgap-predictions-1"
DETAILS_FORMAT = "bandgap-prediction-details-1"
SCORES = "conformal_scores"  # name of the array, and of its ids in the metadata


def save_predictions(path: Path | str, predictions: Predictions) -> None:
    """Write predictions with all their quantiles to one safetensors file (float64, 3.2 kB per
    structure).

    The conformal scores of the run are written if there are any.
    """
    texts: dict[str, tuple[str, ...]] = {name: getattr(predictions, name) for name in TEXTS}
    metadata = {
        "format": FORMAT,
        "texts": json.dumps(texts),
        "level_of_theory": predictions.level_of_theory,
    }
    arrays = {name: np.asarray(getattr(predictions, name), dtype=np.float64) for name in NUMBERS}
    if predictions.p_metal is not None:
        arrays[P_METAL] = np.asarray(predictions.p_metal, dtype=np.float64)
    if predictions.domain_p is not None:
        arrays[DOMAIN_P] = np.asarray(predictions.domain_p, dtype=np.float64)
    if predictions.conformal is not None:
        arrays[SCORES] = np.asarray(predictions.conformal.scores, dtype=np.float64)
        metadata[SCORES] = json.dumps(predictions.conformal.ids)
    write_tensors(
        Path(path), {k: LongTensor.of(array) for k, array in arrays.items()}, metadata=metadata
    )


def load_predictions(path: Path | str) -> Predictions:
    """Read the file of `save_predictions`; its numbers are memory-mapped.

    Raises ArtifactError where the file is absent, damaged or of another format.
    """
    with _opened(path, FORMAT, f"stored predictions with {LEVELS.size} quantiles") as (
        metadata,
        arrays,
    ):
        shared: dict[str, str] = {}  # one object for equal texts
        texts: dict[str, Any] = {
            name: tuple(shared.setdefault(text, text) for text in values)
            for name, values in parse_json(metadata["texts"], what="texts").items()
        }
        scores = arrays.pop(SCORES, None)
        conformal = None
        if scores is not None:
            ids = parse_json(metadata[SCORES], what="ids of the scores")
            conformal = ConformalScores(tuple(ids), scores)
        return Predictions(
            **texts, **arrays, level_of_theory=metadata["level_of_theory"], conformal=conformal
        )


def save_details(path: Path | str, details: PredictionDetails) -> None:
    """Write details to one safetensors file."""
    arrays = {name: LongTensor.of(getattr(details, name)) for name in (*ROWS, *JOINT)}
    write_tensors(
        Path(path),
        arrays,
        metadata={"format": DETAILS_FORMAT, "nearest": json.dumps(details.nearest)},
    )


def load_details(path: Path | str) -> PredictionDetails:
    """Read the file of `save_details`.

    Raises ArtifactError where the file is absent, damaged or of another format.
    """
    with _opened(path, DETAILS_FORMAT, "details of predictions") as (metadata, arrays):
        fields = {name: arrays[name] for name in (*ROWS, *JOINT)}
        nearest = parse_json(metadata["nearest"], what="nearest structures")
        return PredictionDetails(nearest=tuple(nearest), **fields)


@contextmanager
def _opened(
    path: Path | str, form: str, what: str
) -> Iterator[tuple[Mapping[str, str], dict[str, Any]]]:
    """Yield metadata and arrays of a file.

    Errors on reading and on their use become ArtifactError.
    """
    try:
        metadata, arrays = mapped_tensors(Path(path))
        if metadata.get("format") != form:
            raise ArtifactError(f"{path}: format is {metadata.get('format')!r}, expected {form!r}.")
        yield metadata, arrays
    except (*DAMAGE, InputError) as error:
        raise ArtifactError(
            f"{path}: not readable as {what} ({error}). Run predict again."
        ) from error
