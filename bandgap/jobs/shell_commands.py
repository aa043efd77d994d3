"""The command lines that repeat a run of a workspace in a shell."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bandgap.datasets.shipped_models import MODEL
from bandgap.jobs.demos import DEMOS
from bandgap.runs.requests import PredictRequest, TransferRequest
from bandgap.sources.cards import NO_SOURCE

STRUCTURES = "STRUCTURES"
GAPS = "GAPS.csv"
RUN = "RUN"
REFIT = "RUN-ALL"
SOURCE = "SOURCE"
_LABEL_OPTIONS = {
    "label": "--label",
    "labels": "--labels",
    "unit": "--unit",
    "column": "--column",
    "id_column": "--id-column",
}
# Names that the command line accepts.
_SHIPPED = (*(demo.source for demo in DEMOS.values()), MODEL)


def stored_command(manifest: Mapping[str, Any], *, source: str = "") -> str:
    """Return the commands that repeat the run of a manifest, with the files that it names.

    Where the manifest names no files they have placeholders: STRUCTURES, GAPS.csv, RUN for the
    folder that is written, and SOURCE for a source model other than a shipped `source`.
    """
    inputs = manifest.get("inputs") or {}
    refit = manifest.get("refit")
    request = TransferRequest(**(manifest["request"] | (refit or {}).get("request", {})))
    request = request.changed(features=Path(request.features).name if request.features else "")
    shipped = source if source in (*_SHIPPED, NO_SOURCE) else SOURCE
    options = [("--source", str(inputs.get("source", shipped)))]
    options += [("--structures", str(path)) for path in inputs.get("structures", [STRUCTURES])]
    label_options = [
        (option, str(inputs[name])) for name, option in _LABEL_OPTIONS.items() if inputs.get(name)
    ]
    options += label_options or [("--labels", GAPS)]
    if level := manifest.get("level_of_theory"):
        options.append(("--level-of-theory", level))
    lines = [_command("transfer", [*options, *request.command_options(), ("--out", RUN)])]
    if refit:
        lines.append(refit_command())
    return "\n".join(lines)


def refit_command() -> str:
    """Return `bandgap refit` for the folder that `stored_command` writes, in the same folder."""
    return _command(f"refit {RUN}", [("--out", REFIT)])


def predict_command(
    transfer: TransferRequest, request: PredictRequest | None = None, *, refitted: bool = False
) -> str:
    """Return `bandgap predict` for the folder that `stored_command` writes.

    `transfer` is the request of that transfer. With `refitted` the folder is that of
    `refit_command`.
    """
    options = [("--model", REFIT if refitted else RUN), ("--structures", "NEW")]
    if transfer.baseline:
        options.append(("--baselines", "BASELINES.csv"))
    if transfer.features:
        options.append(("--features", "FEATURES.csv"))
    if request is not None:
        options += request.command_options()
    return _command("predict", [*options, ("--out", "predictions.csv")])


def serve_command(*, refitted: bool = False) -> str:
    """Return `bandgap serve` for the folder that `stored_command` or `refit_command` writes."""
    return _command("serve", [("--model", REFIT if refitted else RUN), ("--port", "8600")])


def _command(name: str, options: list[tuple[str, str]]) -> str:
    """Return a command with one option on each line; a flag has an empty value."""
    lines = (f"{option} {shlex.quote(value)}" if value else option for option, value in options)
    return " \\\n    ".join([f"bandgap {name}", *lines])
