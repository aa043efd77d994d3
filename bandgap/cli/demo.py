"""`bandgap demo` and `bandgap demo-data make`: the whole job on the shipped data, and how that data is made."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import label, read_manifest, shown
from bandgap.progress import Progress

METHODS = ("btl_pcp_pe", "fine_tune")
N_TRAIN, N_TEST = 200, 300

demo_data = typer.Typer(no_args_is_help=True, help="Make the data that the demo uses again, from its seed.")


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the runs and their CSV.")] = Path("bandgap-demo"),
    seed: options.Seed = 0,
    device: options.Device = "auto",
    json_file: options.JsonFile = None,
) -> None:
    """Run the whole job on the shipped data: 200 labelled crystals, two methods, 300 test crystals.

    It prints errors, coverage and width of the intervals, the layer weights c, convergence and time of each method.
    """
    from bandgap.devices import set_threads

    set_threads()
    started = time.perf_counter()
    with progress_bars() as progress:
        figures = {name: _run(name, out / f"seed-{seed}", seed, device, progress) for name in METHODS}
    seconds = round(time.perf_counter() - started, 1)
    result = {"methods": figures, "seed": seed, "n_train": N_TRAIN, "n_test": N_TEST, "seconds": seconds}
    _print_table(figures)
    typer.echo(f"{N_TRAIN} labelled and {N_TEST} test crystals; {shown('seconds', seconds)} in all.")
    for name in METHODS:
        typer.echo(f"{out / f'seed-{seed}' / name}: run folder; its predictions.csv has the test crystals.")
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _run(method: str, out: Path, seed: int, device: str, progress: Progress) -> dict[str, Any]:
    """Transfer the demo's source network by one method and return its figures."""
    from bandgap.datasets.demo import demo_source_folder, load_demo
    from bandgap.runs import transfer_run

    crystals = load_demo("crystals")
    started = time.perf_counter()
    folder = transfer_run(
        demo_source_folder(),
        crystals.records,
        crystals.gaps_eV,
        method=method,
        n=N_TRAIN,
        n_test=N_TEST,
        seed=seed,
        out=out / method,
        level_of_theory=crystals.level_of_theory,
        device=device,
        cache=descriptor_cache(),
        progress=progress,
    )
    manifest = read_manifest(folder)
    figures = {**manifest.get("metrics", {}), **manifest.get("diagnostics", {})}
    return {**figures, "seconds": round(time.perf_counter() - started, 1)}


def _print_table(figures: dict[str, dict[str, Any]]) -> None:
    """Print one column for every method and one line for every figure that is a number or a list of numbers."""
    from rich.console import Console
    from rich.table import Column, Table

    names = list(dict.fromkeys(name for row in figures.values() for name in row))
    table = Table("", *(Column(method, justify="right") for method in figures), box=None)
    for name in names:
        table.add_row(label(name), *(_cell(name, row.get(name)) for row in figures.values()))
    Console().print(table)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_cell(name, part) for part in value)
    return shown(name, value) if isinstance(value, (int, float)) else str(value if value is not None else "-")
