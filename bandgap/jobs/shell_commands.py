"""The command lines that repeat a run of a workspace in a shell."""

import shlex

from bandgap.jobs.demos import DEMOS
from bandgap.runs.requests import PredictRequest, TransferRequest
from bandgap.sources.cards import NO_SOURCE

STRUCTURES = "STRUCTURES"
GAPS = "GAPS.csv"
RUN = "RUN"
REFIT = "RUN-ALL"
SOURCE = "SOURCE"
_SHIPPED = tuple(demo.source for demo in DEMOS.values())  # names that the command line accepts


def transfer_command(source: str, request: TransferRequest, *, level_of_theory: str = "") -> str:
    """Return `bandgap transfer` with a run's request.

    Files have placeholders: STRUCTURES, GAPS.csv, RUN for the folder that the command writes, and
    SOURCE for a source model that is not shipped.
    """
    name = source if source in (*_SHIPPED, NO_SOURCE) else SOURCE
    options = [("--source", name), ("--structures", STRUCTURES), ("--labels", GAPS)]
    if level_of_theory:
        options.append(("--level-of-theory", level_of_theory))
    return _command("transfer", [*options, *request.command_options(), ("--out", RUN)])


def refit_command() -> str:
    """Return `bandgap refit` for the folder that `transfer_command` writes, in the same folder."""
    return _command(f"refit {RUN}", [("--out", REFIT)])


def predict_command(
    transfer: TransferRequest, request: PredictRequest | None = None, *, refitted: bool = False
) -> str:
    """Return `bandgap predict` for the folder that `transfer_command` writes.

    `transfer` is the request of that transfer. With `refitted` the folder is that of
    `refit_command`.
    """
    options = [("--model", REFIT if refitted else RUN), ("--structures", "NEW")]
    if transfer.baseline:
        options.append(("--baselines", "BASELINES.csv"))
    if request is not None:
        options += request.command_options()
    return _command("predict", [*options, ("--out", "predictions.csv")])


def serve_command() -> str:
    """Return `bandgap serve` for the folder that `transfer_command` writes."""
    return _command("serve", [("--model", RUN), ("--port", "8600")])


def _command(name: str, options: list[tuple[str, str]]) -> str:
    """Return a command with one option on each line; a flag has an empty value."""
    lines = (f"{option} {shlex.quote(value)}" if value else option for option, value in options)
    return " \\\n    ".join([f"bandgap {name}", *lines])
