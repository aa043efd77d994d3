"""`bandgap demo` and `bandgap demo-data make`: the whole job on the shipped data, and how that data is made."""

import json
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bandgap.cli import inorganic, options
from bandgap.cli.bars import progress_bars
from bandgap.cli.commands import CheckedCommand
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import label, print_table, run_figures, shown, write_figures
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress

METHODS = ("btl_pcp_pe", "fine_tune")
N_TRAIN, N_TEST = 200, 300
SHOWN_LEVEL = 0.95  # of the intervals on the page Home
SHOWN_FIGURES = ("rmse_eV", "mae_eV", "coverage_95", "width_95_eV")

demo_data = typer.Typer(no_args_is_help=True)
demo_data.command("make-inorganic", cls=CheckedCommand, epilog=inorganic.MAKE_EXAMPLE)(inorganic.make)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the runs and their CSV.")] = Path("bandgap-demo"),
    which: Annotated[
        Literal["molecular", "inorganic"],
        typer.Option("--name", help="molecular: molecules to crystals; inorganic: crystals of the Materials Project."),
    ] = "molecular",
    seed: options.Seed = 0,
    device: options.Device = "auto",
    json_file: options.JsonFile = None,
) -> None:
    """Run the whole job on the shipped data: 200 labelled crystals, two methods, 300 test crystals.

    It prints errors, coverage and width of the intervals, the layer weights c, convergence and time of each method.
    With --name inorganic: 140 labelled crystals with carbon and hydrogen and 69 held out, PBE gaps of the Materials
    Project, transfers from inorganic crystals beside methods that know these 140 alone.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    if which == "inorganic":
        inorganic.demo(out / f"inorganic-seed-{seed}", seed=seed, device=device, json_file=json_file)
        return
    started = time.perf_counter()
    folders = {name: out / f"seed-{seed}" / name for name in METHODS}
    for folder in folders.values():
        check_result_folder(folder, kind="run")
    with progress_bars() as progress:
        manifests = {name: _run(name, folder, seed, device, progress) for name, folder in folders.items()}
    figures = {name: run_figures(manifest) for name, manifest in manifests.items()}
    seconds = round(time.perf_counter() - started, 1)
    result = {"methods": figures, "seed": seed, "n_train": N_TRAIN, "n_test": N_TEST, "seconds": seconds}
    names = dict.fromkeys(name for row in figures.values() for name in row)
    rows = [(label(name), *(shown(name, row.get(name)) for row in figures.values())) for name in names]
    print_table(("", *figures), rows)
    typer.echo(f"{N_TRAIN} labelled and {N_TEST} test crystals; {shown('seconds', seconds)} in all.")
    for name, folder in folders.items():
        for warning in manifests[name]["warnings"]:
            typer.echo(f"Warning: {name}: {warning}", err=True)
        typer.echo(f"{folder / 'predictions.csv'}: the test crystals by {name}; the folder is the run.")
    write_figures(json_file, result)


def _run(method: str, out: Path, seed: int, device: str, progress: Progress) -> dict[str, Any]:
    """Transfer the demo's source network by one method and return the run's manifest."""
    from bandgap.datasets.demo import demo_source_folder, load_demo
    from bandgap.foundation.machine import cores
    from bandgap.runs.transfer import transfer_run
    from bandgap.storage.manifests import read_manifest

    crystals = load_demo("crystals")
    folder = transfer_run(
        demo_source_folder(),
        crystals.records,
        crystals.gaps_eV,
        method=method,
        n=N_TRAIN,
        n_test=N_TEST,
        seed=seed,
        out=out,
        level_of_theory=crystals.level_of_theory,
        device=device,
        cache=descriptor_cache(),
        n_jobs=cores(),
        progress=progress,
    )
    return read_manifest(folder, kind="run")


def shown_result(run: Path) -> dict[str, Any]:
    """Return what the page Home shows of a finished run: its figures, and its held-out crystals with 95 % intervals.

    Gaps are in eV, rounded to 0.001. Raises ArtifactError or InputError where the folder is not that of a run with
    held-out structures.
    """
    from bandgap.evaluation.heldout import load_heldout
    from bandgap.storage.manifests import read_manifest

    manifest = read_manifest(run, kind="run")
    heldout = load_heldout(run, manifest)
    lower, upper = heldout.predictions.interval(SHOWN_LEVEL)
    ends = {"gap_eV": heldout.gaps_eV, "mean_eV": heldout.predictions.mean_eV, "lower_eV": lower, "upper_eV": upper}
    return {
        "how": "bandgap demo, then bandgap demo-data result",
        **{name: manifest[name] for name in ("method", "title", "n", "seed", "level_of_theory")},
        "n_test": len(heldout),
        "metrics": {name: round(manifest["metrics"][name], 4) for name in SHOWN_FIGURES},
        "crystals": {"id": list(heldout.predictions.ids), "formula": list(heldout.predictions.formulas)}
        | {name: [round(float(value), 3) for value in values] for name, values in ends.items()},
    }


@demo_data.callback()
def _root() -> None:
    """Make the data that the demo uses again, from its seed."""


@demo_data.command(
    "seal",
    cls=CheckedCommand,
    epilog='Example: bandgap demo-data seal --out data --how "train-source, seed 0"',
)
def seal(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the demo data.")],
    how: Annotated[str, typer.Option(help="How the source model in it was made, in one sentence.")],
) -> None:
    """Write the checksums of the source model that lies beside the demo data into their manifest."""
    from bandgap.datasets.demo_making.shipping import seal_source_model

    typer.echo(f"written to {seal_source_model(out, how=how)}")


@demo_data.command(
    "result",
    cls=CheckedCommand,
    epilog="Example: bandgap demo-data result --run bandgap-demo/seed-0/btl_pcp_pe "
    "--out app/components/home/demo_result.json",
)
def result(
    run: Annotated[Path, typer.Option(metavar="DIR", help="Folder of a run that `bandgap demo` has written.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON file to write.")],
) -> None:
    """Write what the page Home shows of the demo before there is a run of one's own."""
    out.write_text(json.dumps(shown_result(run), separators=(",", ":")) + "\n", encoding="utf-8")
    typer.echo(f"written to {out}")


@demo_data.command("make", cls=CheckedCommand, epilog="Example: bandgap demo-data make --out data --jobs 2")
def make(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write; an interrupted one is continued.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed; the shipped data have 2026.")] = 2026,
    n_molecules: Annotated[int, typer.Option(min=1, help="Molecules of the source set.")] = 11_000,
    n_crystals: Annotated[int, typer.Option(min=1, help="Molecular crystals of the target set.")] = 1_600,
    jobs: options.Jobs = 1,
) -> None:
    """Make the demo molecules and crystals with their semi-empirical gaps, and sample CIF files.

    Takes about 70 minutes on one core. Needs the extra datagen: pip install "bandgap[datagen]".
    """
    try:
        from bandgap.datasets.demo_making.making import make_demo_data
    except ModuleNotFoundError as error:
        raise ConfigError(f'{error.name} is not installed. Run pip install "bandgap[datagen]" first.') from error
    with progress_bars() as progress:
        manifest = make_demo_data(
            out, seed=seed, n_molecules=n_molecules, n_crystals=n_crystals, n_jobs=jobs, progress=progress
        )
    typer.echo(f"written to {manifest.parent}")
