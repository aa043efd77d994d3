"""`bandgap demo --name inorganic`: the demo of Materials Project crystals."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import figure_text, print_table, run_figures, write_figures
from bandgap.evaluation.figure_labels import label
from bandgap.foundation.progress import Progress

# Chosen by their errors on parts of the 140 labelled crystals, not on the held-out ones.
TRANSFERS = ("feature_gp", "last_layer_horseshoe", "fine_tune")
ALONE = ("gaussian_process", "gradient_boosting", "target_only")
FIGURES = ("rmse_eV", "crps_eV", "coverage_95", "width_95_eV", "seconds")


def demo(out: Path, *, seed: int, device: str, json_file: Path | None) -> None:
    """Transfer the source of inorganic crystals to crystals with carbon and hydrogen.

    The results are compared with those of methods without the source.
    """
    from bandgap.datasets.demo import inorganic_folder, read_demo_manifest
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    started = time.perf_counter()
    folders = {name: out / name for name in (*TRANSFERS, *ALONE)}
    for folder in folders.values():
        check_result_folder(folder, kind="run")
    with progress_bars() as progress:
        for name, folder in folders.items():
            _run(name, folder, seed, device, progress)
    manifests = {name: read_manifest(folder, kind="run") for name, folder in folders.items()}
    figures = {name: run_figures(manifest) for name, manifest in manifests.items()}
    seconds = round(time.perf_counter() - started, 1)
    n_train, n_test = (len(manifests[TRANSFERS[0]]["split"][part]) for part in ("train", "test"))
    rows = [
        (
            name,
            "PBE" if name in TRANSFERS else "none",
            *(figure_text(key, row.get(key)) for key in FIGURES),
        )
        for name, row in figures.items()
    ]
    print_table(("method", "from", *map(_short, FIGURES)), rows, text_columns=("method", "from"))
    typer.echo("Coverage and width are of the 95 % interval of the held-out crystals.")
    typer.echo(
        f"{n_train} labelled and {n_test} held-out crystals, PBE; "
        f"{figure_text('seconds', seconds)} in all."
    )
    difference = _difference(folders, manifests)
    typer.echo(difference["words"])
    for name, manifest in manifests.items():
        for warning in manifest["warnings"]:
            typer.echo(f"Warning: {name}: {warning}", err=True)
    typer.echo(f"{out}: a run for each method, with its predictions.csv of the held-out crystals.")
    typer.echo(read_demo_manifest(inorganic_folder())["attribution"] + ".")
    counts = {"seed": seed, "n_train": n_train, "n_test": n_test, "seconds": seconds}
    write_figures(json_file, {"methods": figures, **counts, "difference": difference})


def _run(method: str, out: Path, seed: int, device: str, progress: Progress) -> None:
    """Fit one method, with or without the source, and predict the test part of the target."""
    from bandgap.datasets.demo import HELD_OUT, inorganic_source_folder, load_inorganic
    from bandgap.foundation.machine import cores
    from bandgap.runs.requests import TransferRequest
    from bandgap.runs.transfer import transfer_run

    target = load_inorganic("target")
    transfer_run(
        inorganic_source_folder() if method in TRANSFERS else None,
        target,
        TransferRequest(
            method=method,
            test_ids=tuple(target.table["id"][target.table["part"] == HELD_OUT]),
            seed=seed,
            device=device,  # type: ignore[arg-type]  # the request checks it
            n_jobs=cores(),
        ),
        out=out,
        cache=descriptor_cache(),
        progress=progress,
    )


def _difference(folders: Mapping[str, Path], manifests: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference in RMSE of a GP with and without the source, by paired bootstrap."""
    from bandgap.evaluation.heldout import load_heldout
    from bandgap.evaluation.paired import paired_difference, sentence

    with_source = load_heldout(folders[TRANSFERS[0]], manifests[TRANSFERS[0]])
    without_source = load_heldout(folders[ALONE[0]], manifests[ALONE[0]])
    difference = paired_difference(with_source, without_source)
    text = f"{TRANSFERS[0]}: {sentence(difference, baseline=ALONE[0])}."
    return {"run": TRANSFERS[0], "baseline": ALONE[0], **vars(difference), "words": text}


def _short(name: str) -> str:
    """Return the header of a column, without words that all columns would repeat."""
    return {"coverage_95": "coverage", "width_95_eV": "width (eV)"}.get(name, label(name))
