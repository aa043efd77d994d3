"""The folder of one prediction: the table, all quantiles, details for the pages, and the structures as extXYZ."""

import math
from collections.abc import Sequence
from pathlib import Path

from bandgap.jobs.home import DETAILS, EXTXYZ, PREDICTIONS_CSV, QUANTILES
from bandgap.prediction_details import PredictionDetails, save_details
from bandgap.prediction_store import save_predictions
from bandgap.predictions import IntervalKind, Predictions
from bandgap.structures import StructureRecord
from bandgap.structures.records import InfoValue
from bandgap.structures.writing import extxyz_blocks

LEVEL = 0.95
MAX_EXTXYZ_BYTES = 100_000_000


def write_prediction(
    folder: Path, predictions: Predictions, details: PredictionDetails, records: Sequence[StructureRecord]
) -> None:
    """Write everything that pages show of a prediction; the extXYZ file is left out over `MAX_EXTXYZ_BYTES`."""
    folder.mkdir(parents=True, exist_ok=True)
    predictions.to_csv(folder / PREDICTIONS_CSV)
    save_predictions(folder / QUANTILES, predictions)
    save_details(folder / DETAILS, details)
    write_extxyz(folder / EXTXYZ, predictions, records, most_bytes=MAX_EXTXYZ_BYTES)


def write_extxyz(
    path: Path,
    predictions: Predictions,
    records: Sequence[StructureRecord],
    *,
    level: float = LEVEL,
    kind: IntervalKind = "prediction",
    most_bytes: float = math.inf,
) -> bool:
    """Write the structures that were predicted, with mean, sd and the ends of an interval in eV; return whether.

    The ends are called lower_95_eV and upper_95_eV, after the level in percent. A file that would be longer than
    `most_bytes` is removed.
    """
    lower, upper = predictions.interval(level, kind)
    percent = f"{100 * level:.6g}"
    usable = [i for i, status in enumerate(predictions.status) if status != "refused"]
    comments: list[dict[str, InfoValue]] = [
        {
            "id": predictions.ids[i],
            "file": predictions.files[i],
            "predicted_gap_eV": round(float(predictions.mean_eV[i]), 6),
            "predicted_sd_eV": round(float(predictions.sd_new_eV[i]), 6),
            f"lower_{percent}_eV": round(float(lower[i]), 6),
            f"upper_{percent}_eV": round(float(upper[i]), 6),
            "interval": kind,
            "warning": predictions.warning(i),
        }
        for i in usable
    ]
    written = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for block in extxyz_blocks([records[i] for i in usable], comments):
            written += file.write(block)
            if written > most_bytes:
                break
    if written > most_bytes:
        path.unlink()
    return written <= most_bytes
