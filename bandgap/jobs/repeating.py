"""The command lines that repeat a run of a workspace in a shell."""

import json
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bandgap.jobs.demos import DEMOS
from bandgap.sources.cards import NO_SOURCE

STRUCTURES, GAPS, RUN, SOURCE = "STRUCTURES", "GAPS.csv", "RUN", "SOURCE"
_SHIPPED = tuple(demo.source for demo in DEMOS.values())  # words that the shell knows


def transfer_command(method: str, config: Mapping[str, Any], *, level_of_theory: str = "") -> str:
    """Return `bandgap transfer` with a run's settings.

    Files have placeholders: STRUCTURES, GAPS.csv, RUN for the folder that the command writes, and SOURCE for a source
    model other than the shipped ones, which the shell knows by its folder (in `sources/` of the data directory).
    """
    source = config["source"] if config["source"] in (*_SHIPPED, NO_SOURCE) else SOURCE
    options = [("--source", source), ("--structures", STRUCTURES), ("--labels", GAPS), ("--method", method)]
    options += [("--n", config["n"]), ("--n-test", config["n_test"]), ("--seed", config["seed"])]
    if config.get("conformal_share"):
        options.append(("--conformal-share", f"{config['conformal_share']:g}"))
    if config.get("by_formula"):
        options.append(("--by-formula", ""))
    if config.get("test_known"):
        options.append(("--test-known", ""))
    if "levels" in config:
        options.append(("--levels", config["levels"]))
    if "baseline" in config:
        options.append(("--baseline-column", config["baseline"]))
    if level_of_theory:
        options.append(("--level-of-theory", level_of_theory))
    if config.get("device", "auto") != "auto":
        options.append(("--device", config["device"]))
    for name, value in config.get("settings", {}).items():
        options.append(("--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"))
    return _command("transfer", [*options, ("--out", RUN)])


def predict_command(config: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return `bandgap predict` for the folder that `transfer_command` writes with a run's settings."""
    table = [("--baselines", "BASELINES.csv")] if "baseline" in config else []
    return _command("predict", [("--model", RUN), ("--structures", "NEW"), *table, ("--out", "predictions.csv")])


def serve_command() -> str:
    """Return `bandgap serve` for the folder that `transfer_command` writes."""
    return _command("serve", [("--model", RUN), ("--port", 8600)])


def _command(name: str, options: list[tuple[str, Any]]) -> str:
    """Return a command with an option on every line."""
    lines = (f"{option} {shlex.quote(str(value))}" if value != "" else option for option, value in options)
    return " \\\n    ".join([f"bandgap {name}", *lines])
