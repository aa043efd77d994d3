"""The command line: `bandgap COMMAND`. Every command is thin over a function of the library.

Not here: what a page or a notebook needs too.
"""

from typing import Annotated

import typer

import bandgap
from bandgap.cli import bench, compare, data, demo, extras, joint, prediction, services, structures, training
from bandgap.cli.commands import PlainErrors, SpeciesCommand

_FILES, _MODELS, _RESULTS, _HOUSE = "Structures", "Models", "Results", "Dashboard and installation"

app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Band gaps of crystals with intervals, by Bayesian transfer learning from a source model.\n\n"
        "A first look: `bandgap demo` (about 3 minutes) or `bandgap app`. "
        "Your own data: check, train-source, transfer, predict."
    ),
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bandgap {bandgap.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def _example(text: str) -> str:
    return f"Example: bandgap {text}"


app.command("check", rich_help_panel=_FILES, epilog=_example("check crystals/ molecule.xyz more.zip"))(structures.check)
app.command(
    "featurize",
    rich_help_panel=_FILES,
    cls=SpeciesCommand,
    epilog=_example("featurize --structures crystals/ --preset oe62-16 --out features.npz"),
)(structures.featurize)
app.command(
    "train-source",
    rich_help_panel=_MODELS,
    cls=SpeciesCommand,
    epilog=_example("train-source --structures molecules.extxyz.gz --label gap_eV --preset oe62-16 --out source"),
)(training.train_source)
app.command(
    "train-sources",
    rich_help_panel=_MODELS,
    cls=SpeciesCommand,
    epilog=_example("train-sources qm9=qm9.extxyz.gz oe62=gw.extxyz.gz --label gap_eV --preset oe62-16 --out source"),
)(joint.train_sources)
app.command(
    "source-extras",
    rich_help_panel=_MODELS,
    epilog=_example("source-extras --source source --structures molecules.extxyz.gz --label gap_eV --variational"),
)(extras.source_extras)
app.command(
    "transfer",
    rich_help_panel=_MODELS,
    epilog=_example("transfer --source source --structures crystals.zip --labels gaps.csv --n 200 --out run"),
)(training.transfer)
app.command(
    "predict",
    rich_help_panel=_RESULTS,
    epilog=_example("predict --model run --structures new.cif --level 0.95 --out predictions.csv"),
)(prediction.predict)
app.command(
    "evaluate",
    rich_help_panel=_RESULTS,
    epilog=_example("evaluate --predictions predictions.csv --structures crystals.extxyz --label gap_eV"),
)(prediction.evaluate)
app.command(
    "compare",
    rich_help_panel=_RESULTS,
    epilog=_example("compare --source source --structures crystals.extxyz --label gap_eV --n 100 --out compared"),
)(compare.compare)
app.command("demo", rich_help_panel=_RESULTS, epilog=_example("demo --seed 0 --json figures.json"))(demo.demo)
app.add_typer(demo.demo_data, name="demo-data", rich_help_panel=_HOUSE)
app.add_typer(bench.bench, name="bench", rich_help_panel=_HOUSE)
app.command("app", rich_help_panel=_HOUSE, epilog=_example("app --port 8501"))(services.app)
app.command("add-data", rich_help_panel=_HOUSE, epilog=_example("add-data crystals/ --workspace ADDRESS"))(
    data.add_data
)
app.command("worker", rich_help_panel=_HOUSE, epilog=_example("worker"))(services.worker)
app.command("doctor", rich_help_panel=_HOUSE, epilog=_example("doctor"))(services.doctor)


def main() -> None:
    """Run the command line; the entry point of the `bandgap` script."""
    app()
