"""What people take home from a prediction: the table as CSV, its companion JSON, and the structures as extXYZ."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bandgap.foundation.csv_tables import csv_of_columns
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shell_commands import predict_command
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import Predictions
from bandgap.runs.requests import PredictRequest

UNITS = {
    "mean_eV": "eV",
    "sd_eV": "eV",
    "lower_eV": "eV",
    "upper_eV": "eV",
    "level": "probability",
    "nearest_distance": "1 - cosine of descriptors",
    "nearest_percentile": "share of the training set",
}


def download_csv(
    predictions: Predictions, details: PredictionDetails | None, *, level: float, kind: IntervalKind
) -> bytes:
    """Return one row for every row of the input, refused ones with the reason, units in the header, text defused.

    Everything to mind stands in one column more and, where it is known, the nearest known structure in others.
    """
    columns: dict[str, Iterable[object]] = {**predictions.to_columns(level, kind)}
    columns["warning"] = map(predictions.warning, range(len(predictions)))
    if details is not None and len(details) == len(predictions):
        columns["nearest_known"] = details.nearest
        columns["nearest_distance"], columns["nearest_percentile"] = (
            details.distance,
            details.percentile,
        )
    return csv_of_columns(columns).encode()


def companion_json(
    manifest: Mapping[str, Any],
    *,
    run: RunRow,
    prediction: str,
    name: str,
    level: float,
    kind: IntervalKind,
    columns: Sequence[str],
    counts: Mapping[str, int],
) -> bytes:
    """Return what the CSV cannot say without comment lines: run, versions, settings, units, and how to repeat it."""
    body = {
        "kind": "bandgap predictions",
        "run": run.id,
        "prediction": prediction,
        "structures": name,
        "rows": dict(counts),
        "interval": {"kind": kind, "level": level},
        "units": {column: UNITS[column] for column in columns if column in UNITS},
        "method": manifest.get("method", run.method),
        "seed": manifest["request"]["seed"],
        "n_labelled": manifest.get("n"),
        "level_of_theory": manifest.get("level_of_theory", ""),
        "data_fingerprint": manifest.get("data", {}).get("fingerprint"),
        "source_fingerprint": manifest.get("source", {}).get("fingerprint"),
        "trained": manifest.get("created"),
        "warnings": list(manifest.get("warnings", ())),
        "versions": manifest.get("versions", {}),
        "repeat": predict_command(run.request, PredictRequest(probability=level, interval=kind)),
    }
    return (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode()


def row_counts(status: Sequence[str]) -> dict[str, int]:
    """Return how many rows there are of each status, and in all."""
    found = np.asarray(status, dtype=object)
    return {"all": int(found.size)} | {
        name: int((found == name).sum()) for name in ("ok", "warning", "refused")
    }
