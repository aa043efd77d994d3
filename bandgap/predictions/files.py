"""The folder of one prediction: the table, all quantiles, details for the pages, and the structures as extXYZ."""

import math
from collections.abc import Sequence
from pathlib import Path

from bandgap.predictions.details import PredictionDetails, save_details
from bandgap.predictions.extxyz import interval_numbers, usable_rows
from bandgap.predictions.store import DETAILS, EXTXYZ, PREDICTIONS_CSV, QUANTILES, save_predictions
from bandgap.predictions.table import IntervalKind, Predictions
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

    The numbers are those of `predictions.extxyz`. A file that would be longer than `most_bytes` is removed.
    """
    usable = usable_rows(predictions)
    numbers = interval_numbers(predictions, level=level, kind=kind)
    comments: list[dict[str, InfoValue]] = [
        {"id": predictions.ids[i], "file": predictions.files[i], **own, "warning": predictions.warning(i)}
        for i, own in zip(usable, numbers, strict=True)
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
