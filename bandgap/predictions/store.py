"""Predictions on disk: numbers as safetensors, texts as JSON in its metadata; nothing is ever unpickled."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.table import LEVELS, Predictions

PREDICTIONS_CSV, QUANTILES = "predictions.csv", "quantiles.safetensors"  # names of the files of a prediction
DETAILS, EXTXYZ = "details.safetensors", "predictions.extxyz"
FORMAT = "bandgap-predictions-1"

_TEXTS = ("ids", "files", "formulas", "domain", "status", "problem")
_SCORES = "conformal_scores"
_NUMBERS = ("mean_eV", "sd_mean_eV", "sd_new_eV", "quantiles_mean", "quantiles_new")


def save_predictions(path: Path | str, predictions: Predictions) -> None:
    """Write predictions with all their quantiles to one safetensors file (float64, 3.2 kB per structure).

    The scores of a run's held-back structures are written where there are some.
    """
    texts: dict[str, tuple[str, ...]] = {name: getattr(predictions, name) for name in _TEXTS}
    metadata = {"format": FORMAT, "texts": json.dumps(texts), "level_of_theory": predictions.level_of_theory}
    arrays = {name: np.ascontiguousarray(getattr(predictions, name), dtype=np.float64) for name in _NUMBERS}
    if predictions.conformal is not None:
        arrays[_SCORES] = np.ascontiguousarray(predictions.conformal.scores, dtype=np.float64)
        metadata[_SCORES] = json.dumps(predictions.conformal.ids)
    Path(path).write_bytes(save(arrays, metadata=metadata))


def load_predictions(path: Path | str) -> Predictions:
    """Read what `save_predictions` wrote.

    Raises ArtifactError where the file is absent, damaged or of another format.
    """
    try:
        with safe_open(str(path), framework="numpy") as stored:
            metadata = stored.metadata() or {}
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
        if metadata.get("format") != FORMAT:
            raise ArtifactError(f"{path}: format is {metadata.get('format')!r}, expected {FORMAT!r}.")
        texts: dict[str, Any] = {name: tuple(values) for name, values in json.loads(metadata["texts"]).items()}
        scores = arrays.pop(_SCORES, None)
        conformal = None if scores is None else ConformalScores(tuple(json.loads(metadata[_SCORES])), scores)
        return Predictions(**texts, **arrays, level_of_theory=metadata["level_of_theory"], conformal=conformal)
    except (OSError, SafetensorError, InputError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path}: not readable as stored predictions with {LEVELS.size} quantiles ({error}). Run predict again."
        ) from error
