"""What people take home from a prediction: the table as CSV, its companion JSON, and the structures as extXYZ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bandgap.foundation.csv_tables import csv_text
from bandgap.jobs.repeating import predict_command
from bandgap.jobs.rows import RunRow
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import IntervalKind, Predictions

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
    """Return one row for every row of the input, refused ones with the reason, units in the header, text defused."""
    return csv_text(with_details(predictions.to_frame(level, kind), predictions, details)).encode()


def with_details(table: pd.DataFrame, predictions: Predictions, details: PredictionDetails | None) -> pd.DataFrame:
    """Return the table with everything to mind in one column and, where it is known, the nearest known structure."""
    wide = table.assign(warning=pd.Series([predictions.warning(i) for i in range(len(predictions))], dtype="str"))
    if details is None or len(details) != len(table):
        return wide
    return wide.assign(
        nearest_known=pd.Series(list(details.nearest), dtype="str"),
        nearest_distance=details.distance,
        nearest_percentile=details.percentile,
    )


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
        "seed": manifest.get("seed"),
        "n_labelled": manifest.get("n"),
        "level_of_theory": manifest.get("level_of_theory", ""),
        "data_fingerprint": manifest.get("data", {}).get("fingerprint"),
        "source_fingerprint": manifest.get("source", {}).get("fingerprint"),
        "trained": manifest.get("created"),
        "warnings": list(manifest.get("warnings", ())),
        "versions": manifest.get("versions", {}),
        "repeat": predict_command(),
    }
    return (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode()


def row_counts(status: Sequence[str]) -> dict[str, int]:
    """Return how many rows there are of each status, and in all."""
    found = np.asarray(status, dtype=object)
    return {"all": int(found.size)} | {name: int((found == name).sum()) for name in ("ok", "warning", "refused")}
