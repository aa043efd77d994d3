"""The command line: `bandgap COMMAND`. Every command calls a function of the library.

Not here: what a page or a notebook needs too.
"""

import gc
from collections.abc import Callable
from typing import Annotated

import typer

import bandgap
from bandgap.cli import (
    calculations,
    compare,
    dashboard,
    data,
    demo,
    doctor,
    prediction,
    service,
    sources,
    structures,
    training,
)
from bandgap.cli.commands import CheckedCommand, PlainErrors, SpeciesCommand

# Allocations between two runs of the garbage collector; Python's default of 700 takes half a second
# at import.
COLLECTED_AT = 50_000

_DASHBOARD_PANEL = "Dashboard and installation"

app = typer.Typer(
    cls=PlainErrors,
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


# every command with an example of its options, by panel of the help
_COMMANDS: dict[str, dict[Callable[..., None], str]] = {
    "Structures": {
        structures.check: "crystals/ molecule.xyz more.zip",
        structures.featurize: "--structures crystals/ --preset oe62-16 --out features.npz",
        calculations.labels: "runs/ --out labels.csv --structures structures.extxyz",
    },
    "Models": {
        training.train_source: "--structures molecules.extxyz.gz --label gap_eV "
        "--preset oe62-16 --out source",
        sources.train_sources: "qm9=qm9.extxyz.gz oe62=gw.extxyz.gz --label gap_eV "
        "--preset oe62-16 --out source",
        sources.source_extras: "--source source --structures molecules.extxyz.gz "
        "--label gap_eV --variational",
        training.transfer: "--source source --structures crystals.zip --labels gaps.csv "
        "--n 200 --out run",
    },
    "Results": {
        prediction.predict: "--model run --structures new.cif --level 0.95 --out predictions.csv",
        prediction.compute_next: "--model run --structures candidates/ --count 10 --out next.csv",
        prediction.evaluate: "--predictions predictions.csv --structures crystals.extxyz "
        "--label gap_eV",
        compare.compare: "--source source --structures crystals.extxyz --label gap_eV "
        "--n 100 --out compared",
        demo.demo: "--seed 0 --json figures.json",
    },
    _DASHBOARD_PANEL: {
        dashboard.app: "--port 8501",
        data.add_data: "crystals/ --workspace ADDRESS",
        data.add_source: "source --workspace ADDRESS",
        dashboard.worker: "",
        service.serve: "--model run --port 8600",
        doctor.doctor: "",
    },
}
_WITH_SPECIES = (
    training.transfer,
    compare.compare,
    structures.featurize,
    training.train_source,
    sources.train_sources,
)

for _panel, _examples in _COMMANDS.items():
    for _command, _options in _examples.items():
        _name = _command.__name__.replace("_", "-")
        app.command(
            _name,
            cls=SpeciesCommand if _command in _WITH_SPECIES else CheckedCommand,
            rich_help_panel=_panel,
            epilog=f"Example: bandgap {_name} {_options}".rstrip(),
        )(_command)
app.add_typer(data.published, name="data", rich_help_panel=_DASHBOARD_PANEL)


def main() -> None:
    """Run the command line; the entry point of the `bandgap` script."""
    gc.set_threshold(COLLECTED_AT)
    app()
