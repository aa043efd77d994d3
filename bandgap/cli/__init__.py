"""The command line: `bandgap COMMAND`. Every command calls a function of the library.

The module of a command is imported when the command is called; the help of all commands reads the
first docstring of its function instead.

Not here: what a page or a notebook needs too.
"""

import gc
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

import bandgap
from bandgap.cli.commands import CheckedCommand, PlainErrors, SpeciesCommand

# Allocations between two runs of the garbage collector; Python's default of 700 takes half a second
# at import.
COLLECTED_AT = 50_000

_DASHBOARD_PANEL = "Dashboard and installation"

# Module and example of every command, by panel of the help.
_COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Structures": {
        "check": ("structures", "crystals/ molecule.xyz more.zip"),
        "featurize": (
            "structures",
            "--structures crystals/ --preset oe62-16 --out features.npz",
        ),
        "labels": ("calculations", "runs/ --out labels.csv --structures structures.extxyz"),
    },
    "Models": {
        "train-source": (
            "training",
            "--structures molecules.extxyz.gz --label gap_eV --preset oe62-16 --out source",
        ),
        "train-sources": (
            "sources",
            "qm9=qm9.extxyz.gz oe62=gw.extxyz.gz --label gap_eV --preset oe62-16 --out source",
        ),
        "source-extras": (
            "sources",
            "--source source --structures molecules.extxyz.gz --label gap_eV --variational",
        ),
        "transfer": (
            "training",
            "--source source --structures crystals.zip --labels gaps.csv --n 200 --out run",
        ),
        "refit": ("refit", "run --out run-all"),
    },
    "Results": {
        "predict": (
            "prediction",
            "--model run --structures new.cif --level 0.95 --out predictions.csv",
        ),
        "compute-next": (
            "prediction",
            "--model run --structures candidates/ --count 10 --out next.csv",
        ),
        "propose": (
            "proposing",
            "--model run --structures molecules.extxyz --window 2.0:2.5 --out proposed.csv",
        ),
        "evaluate": (
            "prediction",
            "--predictions predictions.csv --structures crystals.extxyz --label gap_eV",
        ),
        "report": ("run_report", "run --out report.html"),
        "describe": ("run_report", "run"),
        "cite": ("run_report", "--run run"),
        "learning-curve": ("learning_curve", "run --out curve.csv"),
        "explain": ("explain", "run --new new.cif --out reasons.csv"),
        "compare": (
            "compare",
            "--source source --structures crystals.extxyz --label gap_eV --n 100 --out compared",
        ),
        "demo": ("demo", "--seed 0 --json figures.json"),
    },
    _DASHBOARD_PANEL: {
        "app": ("dashboard", "--port 8501"),
        "add-data": ("data", "crystals/ --workspace ADDRESS"),
        "add-source": ("data", "source --workspace ADDRESS"),
        "add-run": ("data", "run.zip --workspace ADDRESS"),
        "worker": ("dashboard", ""),
        "serve": ("service", "--model run --port 8600"),
        "mcp": ("agents", "crystals/ run"),
        "doctor": ("doctor", ""),
    },
}
_PANELS = {name: panel for panel, commands in _COMMANDS.items() for name in commands}
_WITH_SPECIES = ("transfer", "compare", "featurize", "train-source", "train-sources")
_GROUPS = ("data", "admin")


@cache
def _command(name: str) -> Any:
    """Return a command; raise KeyError if there is none of this name."""
    parent = typer.Typer()
    if name in _GROUPS:
        group = importlib.import_module(f"bandgap.cli.{name}").group
        parent.add_typer(group, name=name, rich_help_panel=_DASHBOARD_PANEL)
    else:
        module, options = _COMMANDS[_PANELS[name]][name]
        function = getattr(importlib.import_module(f"{__name__}.{module}"), name.replace("-", "_"))
        parent.command(
            name,
            cls=SpeciesCommand if name in _WITH_SPECIES else CheckedCommand,
            rich_help_panel=_PANELS[name],
            epilog=f"Example: bandgap {name} {options}".rstrip(),
        )(function)
    return typer.main.get_group(parent).commands[name]


def _listed(name: str) -> Any:
    """Return a command with its name, panel and help, which cannot be called."""
    if name in _GROUPS:
        return _command(name)
    module, _ = _COMMANDS[_PANELS[name]][name]
    text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    (docstring,) = re.findall(
        rf'^def {name.replace("-", "_")}\(.*?"""(.*?)"""', text, re.DOTALL | re.MULTILINE
    )
    return typer.core.TyperCommand(name, help=docstring, rich_help_panel=_PANELS[name])


class _Commands(Mapping[str, Any]):
    """The commands by name; the module of a command is imported on the first access to it."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*_PANELS, *_GROUPS))

    def __len__(self) -> int:
        return len(_PANELS) + len(_GROUPS)


class _Group(PlainErrors):
    """The group of all commands, which imports only those that are used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with all commands."""
        commands = self.commands
        self.commands = {name: _listed(name) for name in commands}
        super().format_help(ctx, formatter)
        self.commands = commands


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Band gaps of crystals with intervals, by Bayesian transfer learning from a source "
        "model.\n\nA first look: `bandgap demo` (about 3 minutes) or `bandgap app`. Your own data: "
        "check, train-source, transfer, predict."
    ),
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"bandgap {bandgap.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version and end."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; the entry point of the `bandgap` script."""
    gc.set_threshold(COLLECTED_AT)
    app()
