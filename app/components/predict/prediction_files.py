"""Downloads of a prediction: the table as CSV, and a JSON file that describes it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.csv_tables import csv_of_columns
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shell_commands import predict_command
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import Predictions
from bandgap.runs.companion import companion, to_json
from bandgap.runs.requests import PredictRequest

Floats = NDArray[np.float64]


def download_csv(
    predictions: Predictions,
    details: PredictionDetails | None,
    *,
    request: PredictRequest,
) -> bytes:
    """Return the CSV with one row for every input row; refused rows have the reason.

    With a target window, the most probable in it are first, as on the page. Headers contain the
    units, and texts are protected against formulas. Further columns give the
    nearest known structure, if stored.
    """
    columns: dict[str, Sequence[object] | Floats] = {
        **predictions.to_columns(request.probability, request.interval, window=request.target)
    }
    if details is not None and len(details) == len(predictions):
        columns["nearest_known"] = details.nearest
        columns["nearest_distance"] = details.distance
        columns["nearest_percentile"] = details.percentile
    if request.target is not None:
        best_first = np.argsort(-predictions.window_probability(request.target), kind="stable")
        columns = {name: [values[row] for row in best_first] for name, values in columns.items()}
    return csv_of_columns(columns).encode()


def companion_json(
    manifest: Mapping[str, Any],
    *,
    run: RunRow,
    prediction: str,
    name: str,
    request: PredictRequest,
    columns: Sequence[str],
    counts: Mapping[str, int],
) -> bytes:
    """Return the JSON that describes a CSV: run, versions, settings, units, counts and command."""
    body = {
        "run": run.id,
        "prediction": prediction,
        "structures": name,
        **companion({"method": run.method, **manifest}, request, columns=columns, rows=counts),
        "repeat": predict_command(run.request, request),
    }
    return to_json(body).encode()
