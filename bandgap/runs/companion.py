"""The JSON file next to a table of predictions: the run that made them, and its warnings."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.replacement import write_whole
from bandgap.runs.requests import PredictRequest

SUFFIX: Final = ".json"
UNITS: Final = {
    "mean_eV": "eV",
    "sd_eV": "eV",
    "lower_eV": "eV",
    "upper_eV": "eV",
    "level": "probability",
    "p_metal": "probability",
    "domain_p": "p-value",
    "window": "eV",
    "p_window": "probability",
    "nearest_distance": "1 - cosine of descriptors",
    "nearest_percentile": "share of the training set",
}
"""Units of the columns that have one."""


def companion(
    manifest: Mapping[str, Any],
    request: PredictRequest,
    *,
    columns: Iterable[str],
    rows: Mapping[str, int],
) -> dict[str, Any]:
    """Return what describes a table of predictions.

    Parameters
    ----------
    manifest
        Manifest of the run that predicted.
    request
        The request for the predictions.
    columns
        Names of the table's columns.
    rows
        Number of rows of each status.
    """
    window = request.target
    return {
        "kind": "bandgap predictions",
        "rows": dict(rows),
        "interval": {"kind": request.interval, "level": request.probability},
        "window_eV": None if window is None else [window.lower_eV, window.upper_eV],
        "withhold_below_p": request.withhold_below_p or None,
        "widen_below_p": request.widen_below_p or None,
        "widen_factor": request.widen_factor if request.widen_below_p else None,
        "units": {column: UNITS[column] for column in columns if column in UNITS},
        "method": manifest["method"],
        "seed": manifest["request"]["seed"],
        "n_labelled": manifest["n"],
        "learned_from": manifest["split"]["train"],
        "level_of_theory": manifest["level_of_theory"],
        "data_fingerprint": manifest["data"]["fingerprint"],
        "source_fingerprint": manifest["source"]["fingerprint"],
        "trained": manifest["created"],
        "warnings": manifest["warnings"],
        "versions": manifest["versions"],
    }


def to_json(body: Mapping[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def companion_path(output: Path) -> Path:
    """Return the path of the file that describes an output.

    >>> companion_path(Path("new/predictions.csv")).name
    'predictions.csv.json'
    """
    return output.with_name(output.name + SUFFIX)


def write_companion(output: Path, body: Mapping[str, Any]) -> None:
    """Write the file next to an output, unless that is no ordinary file, such as /dev/stdout."""
    if output.is_file():
        write_whole(companion_path(output), to_json(body))


def ids_learned_from(table: Path) -> frozenset[str]:
    """Return the ids of the structures that the run of a table of predictions learned from.

    They are in the file next to the table. Without such a file the result is empty.

    Raises
    ------
    ArtifactError
        If the file cannot be read as JSON.
    """
    path = companion_path(table)
    if not path.is_file():
        return frozenset()
    try:
        body = read_json(path)
        return frozenset(str(id_) for id_ in body.get("learned_from", ()))
    except (*DAMAGE, AttributeError) as error:
        raise ArtifactError(
            f"{path}: not readable as the description of a table ({error}). Predict again, or "
            "delete this file."
        ) from error
