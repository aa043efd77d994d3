"""`bandgap demo`: the complete workflow on the shipped data."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bandgap.cli import demo_inorganic, options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import figure_text, print_table, run_figures, write_figures
from bandgap.evaluation.figure_labels import label
from bandgap.foundation.progress import Progress

METHODS = ("btl_pcp_pe", "fine_tune")
N_TRAIN = 200
N_TEST = 300


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the runs and their CSV.")
    ] = Path("bandgap-demo"),
    which: Annotated[
        Literal["molecular", "inorganic"],
        typer.Option(
            "--name",
            help="molecular: molecules to crystals; inorganic: crystals of the Materials Project.",
        ),
    ] = "molecular",
    seed: options.Seed = 0,
    device: options.Device = "auto",
    json_file: options.JsonFile = None,
) -> None:
    """Run the complete workflow on the shipped data.

    200 labelled crystals, two methods, 300 test crystals. It prints errors, coverage and width of
    the intervals, the layer weights c, convergence and time of each method. With --name inorganic:
    140 labelled crystals with carbon and hydrogen and 69 held-out ones, with PBE gaps of the
    Materials Project; transfer from inorganic crystals, compared with methods without a source.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    if which == "inorganic":
        demo_inorganic.demo(
            out / f"inorganic-seed-{seed}", seed=seed, device=device, json_file=json_file
        )
        return
    started = time.perf_counter()
    folders = {name: out / f"seed-{seed}" / name for name in METHODS}
    for folder in folders.values():
        check_result_folder(folder, kind="run")
    with progress_bars() as progress:
        manifests = {
            name: _run(name, folder, seed, device, progress) for name, folder in folders.items()
        }
    figures = {name: run_figures(manifest) for name, manifest in manifests.items()}
    seconds = round(time.perf_counter() - started, 1)
    result = {
        "methods": figures,
        "seed": seed,
        "n_train": N_TRAIN,
        "n_test": N_TEST,
        "seconds": seconds,
    }
    names = dict.fromkeys(name for row in figures.values() for name in row)
    rows = [
        (label(name), *(figure_text(name, row.get(name)) for row in figures.values()))
        for name in names
    ]
    print_table(("", *figures), rows)
    typer.echo(
        f"{N_TRAIN} labelled and {N_TEST} test crystals; {figure_text('seconds', seconds)} in all."
    )
    for name, folder in folders.items():
        for warning in manifests[name]["warnings"]:
            typer.echo(f"Warning: {name}: {warning}", err=True)
        typer.echo(
            f"{folder / 'predictions.csv'}: the test crystals by {name}; the folder is the run."
        )
    write_figures(json_file, result)


def _run(method: str, out: Path, seed: int, device: str, progress: Progress) -> dict[str, Any]:
    """Transfer the demo's source network by one method and return the run's manifest."""
    from bandgap.datasets.demo import demo_source_folder, load_demo
    from bandgap.foundation.machine import cores
    from bandgap.runs.requests import TransferRequest
    from bandgap.runs.transfer import transfer_run
    from bandgap.storage.manifests import read_manifest

    request = TransferRequest(
        method=method,
        n=N_TRAIN,
        n_test=N_TEST,
        seed=seed,
        device=device,  # type: ignore[arg-type]  # the request checks it
        n_jobs=cores(),
    )
    folder = transfer_run(
        demo_source_folder(),
        load_demo("crystals"),
        request,
        out=out,
        cache=descriptor_cache(),
        progress=progress,
    )
    return read_manifest(folder, kind="run")
