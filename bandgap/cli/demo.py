"""`bandgap demo`: the complete workflow on the shipped data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import figure_text, print_table, run_figures, write_figures
from bandgap.evaluation.figure_labels import label

if TYPE_CHECKING:
    from bandgap.datasets.demo import DemoSet

MOLECULAR = ("btl_pcp_pe", "fine_tune")
# Chosen by their errors on parts of the 140 labelled crystals, not on the held-out ones.
INORGANIC = ("feature_gp", "last_layer_horseshoe", "fine_tune")
ALONE = ("gaussian_process", "gradient_boosting", "target_only")
# Columns of the table of inorganic crystals, without words that all would repeat.
COLUMNS = {
    "rmse_eV": "RMSE (eV)",
    "crps_eV": "CRPS (eV)",
    "coverage_95": "coverage",
    "width_95_eV": "width (eV)",
    "seconds": "time",
}


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
    from bandgap.foundation.machine import cores, set_threads
    from bandgap.runs.requests import TransferRequest
    from bandgap.runs.transfer import transfer_run
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    started = time.perf_counter()
    is_inorganic = which == "inorganic"
    methods = (*INORGANIC, *ALONE) if is_inorganic else MOLECULAR
    folder = out / (f"inorganic-seed-{seed}" if is_inorganic else f"seed-{seed}")
    for name in methods:
        check_result_folder(folder / name, kind="run")
    target, source, split = _target(is_inorganic)
    with progress_bars() as progress:
        for name in methods:
            transfer_run(
                None if name in ALONE else source,
                target,
                TransferRequest(method=name, seed=seed, device=device, n_jobs=cores(), **split),
                out=folder / name,
                cache=descriptor_cache(),
                progress=progress,
            )
    manifests = {name: read_manifest(folder / name, kind="run") for name in methods}
    figures = {name: run_figures(manifest) for name, manifest in manifests.items()}
    parts = manifests[methods[0]]["split"]
    counts = {"n_train": len(parts["train"]), "n_test": len(parts["test"])}
    seconds = round(time.perf_counter() - started, 1)
    _print_figures(figures, is_inorganic=is_inorganic)
    typer.echo(
        f"{counts['n_train']} labelled and {counts['n_test']} held-out crystals; "
        f"{figure_text('seconds', seconds)} in all."
    )
    result: dict[str, Any] = {"methods": figures, "seed": seed, **counts, "seconds": seconds}
    if is_inorganic:
        result["difference"] = _difference(folder, manifests)
        typer.echo(result["difference"]["words"])
    for name, manifest in manifests.items():
        for warning in manifest["warnings"]:
            typer.echo(f"Warning: {name}: {warning}", err=True)
    typer.echo(
        f"{folder}: a run for each method, with its predictions.csv of the held-out crystals."
    )
    if is_inorganic:
        from bandgap.datasets.demo import inorganic_folder, read_demo_manifest

        typer.echo(read_demo_manifest(inorganic_folder())["attribution"] + ".")
    write_figures(json_file, result)


def _target(is_inorganic: bool) -> tuple[DemoSet, Path, dict[str, Any]]:
    """Return the labelled crystals, the source model, and the fields of a request that split."""
    from bandgap.datasets import demo as shipped

    if not is_inorganic:
        return (
            shipped.load_demo("crystals"),
            shipped.demo_source_folder(),
            {"n": 200, "n_test": 300},
        )
    target = shipped.load_inorganic("target")
    held_out = target.table["id"][target.table["part"] == shipped.HELD_OUT]
    return target, shipped.inorganic_source_folder(), {"test_ids": tuple(held_out)}


def _print_figures(figures: Mapping[str, Mapping[str, Any]], *, is_inorganic: bool) -> None:
    """Print the figures of each method: two side by side, several below one another."""
    if is_inorganic:
        rows = [
            (
                name,
                "none" if name in ALONE else "PBE",
                *(figure_text(key, row.get(key)) for key in COLUMNS),
            )
            for name, row in figures.items()
        ]
        header = ("method", "from")
        print_table((*header, *COLUMNS.values()), rows, text_columns=header)
        typer.echo("Coverage and width are of the 95 % interval of the held-out crystals.")
        return
    keys = dict.fromkeys(key for row in figures.values() for key in row)
    print_table(
        ("", *figures),
        [
            (label(key), *(figure_text(key, row.get(key)) for row in figures.values()))
            for key in keys
        ],
    )


def _difference(folder: Path, manifests: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference in RMSE of a GP with and without the source, by paired bootstrap."""
    from bandgap.evaluation.heldout import load_heldout
    from bandgap.evaluation.paired import paired_difference, sentence

    run, baseline = INORGANIC[0], ALONE[0]
    difference = paired_difference(
        *(load_heldout(folder / name, manifests[name]) for name in (run, baseline))
    )
    words = f"{run}: {sentence(difference, baseline=baseline)}."
    return {"run": run, "baseline": baseline, **vars(difference), "words": words}
