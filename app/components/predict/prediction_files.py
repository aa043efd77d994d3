"""Downloads of a prediction: the table as CSV, and a JSON file that describes it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandgap.foundation.csv_tables import csv_of_columns
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shell_commands import predict_command
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import Predictions
from bandgap.runs.companion import companion, to_json
from bandgap.runs.requests import PredictRequest


def download_csv(
    predictions: Predictions,
    details: PredictionDetails | None,
    *,
    request: PredictRequest,
) -> bytes:
    """Return the CSV with one row for every input row; refused rows have the reason.

    Headers contain the units, and texts are protected against formulas. The column `warning`
    contains all notes on a row. Further columns give the nearest known structure, if stored.
    """
    columns: dict[str, Iterable[object]] = {
        **predictions.to_columns(request.probability, request.interval, window=request.target)
    }
    columns["warning"] = map(predictions.warning, range(len(predictions)))
    if details is not None and len(details) == len(predictions):
        columns["nearest_known"] = details.nearest
        columns["nearest_distance"] = details.distance
        columns["nearest_percentile"] = details.percentile
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
