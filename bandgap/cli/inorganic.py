"""`bandgap demo --name inorganic` and `bandgap demo-data make-inorganic`: the demo of Materials Project crystals."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import label, print_table, run_figures, shown, write_figures
from bandgap.foundation.progress import Progress

# By their errors on parts of the 140 labelled crystals; the held-out ones had no say.
TRANSFERS = ("feature_gp", "last_layer_horseshoe", "fine_tune")
ALONE = ("gaussian_process", "gradient_boosting", "target_only")
FIGURES = ("rmse_eV", "crps_eV", "coverage_95", "width_95_eV", "seconds")
PRESET = "any-elements"  # of the source
MAKE_EXAMPLE = "Example: bandgap demo-data make-inorganic --raw mp_crystals_pbe --out data/inorganic"
HOW = "train-source --variational on the learned part of source.extxyz.gz, preset any-elements, seed 0"


def demo(out: Path, *, seed: int, device: str, json_file: Path | None) -> None:
    """Transfer the source of inorganic crystals to crystals with carbon and hydrogen, beside methods without it."""
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
        (name, "PBE" if name in TRANSFERS else "none", *(shown(key, row.get(key)) for key in FIGURES))
        for name, row in figures.items()
    ]
    print_table(("method", "from", *map(_short, FIGURES)), rows, words=("method", "from"))
    typer.echo("Coverage and width are of the 95 % interval of the held-out crystals.")
    typer.echo(f"{n_train} labelled and {n_test} held-out crystals, PBE; {shown('seconds', seconds)} in all.")
    difference = _difference(folders, manifests)
    typer.echo(difference["words"])
    for name, manifest in manifests.items():
        for warning in manifest["warnings"]:
            typer.echo(f"Warning: {name}: {warning}", err=True)
    typer.echo(f"{out}: a run for each method, with its predictions.csv of the held-out crystals.")
    typer.echo(read_demo_manifest(inorganic_folder())["attribution"] + ".")
    counts = {"seed": seed, "n_train": n_train, "n_test": n_test, "seconds": seconds}
    write_figures(json_file, {"methods": figures, **counts, "difference": difference})


def make(
    raw: Annotated[Path, typer.Option(metavar="DIR", help="Folder with cifs.zip and mp_crystals_pbe.csv.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    jobs: options.Jobs = 1,
) -> None:
    """Make the demo of Materials Project crystals: both sets with their held-out parts, then the source network."""
    from bandgap.datasets.demo import HELD_OUT, load_inorganic
    from bandgap.datasets.demo_making.materials_project import ATTRIBUTION, LICENCE, make_inorganic_demo
    from bandgap.datasets.demo_making.shipping import SOURCE_MODEL, seal_source_model
    from bandgap.descriptors import config_for
    from bandgap.sources.domain import DOMAIN
    from bandgap.sources.model import SourceConfig
    from bandgap.sources.training import train_source_run

    with progress_bars() as progress:
        make_inorganic_demo(raw, out, progress=progress)
        found = load_inorganic("source", folder=out)
        learned = (found.table["part"] != HELD_OUT).to_numpy().nonzero()[0]
        train_source_run(
            [found.records[row] for row in learned],
            found.gaps_eV[learned],
            descriptor=config_for(preset=PRESET),
            config=SourceConfig(variational=options.variational_configs(True)),
            out=out / SOURCE_MODEL,
            seed=0,
            level_of_theory=found.level_of_theory,
            licence=f"{LICENCE}. {ATTRIBUTION}",
            cache=descriptor_cache(),
            n_jobs=jobs,
            progress=progress,
        )
    (out / SOURCE_MODEL / DOMAIN).unlink()  # 6 MB, made again from the source's structures where it is asked for
    seal_source_model(out, how=HOW)
    typer.echo(f"written to {out}")


def _run(method: str, out: Path, seed: int, device: str, progress: Progress) -> None:
    """Fit one method to the learned part of the target, from the source or without, and predict the held-out part."""
    from bandgap.datasets.demo import HELD_OUT, inorganic_source_folder, load_inorganic
    from bandgap.foundation.machine import cores
    from bandgap.runs.transfer import transfer_run

    target = load_inorganic("target")
    transfer_run(
        inorganic_source_folder() if method in TRANSFERS else None,
        target.records,
        target.gaps_eV,
        method=method,
        test_ids=target.table["id"][target.table["part"] == HELD_OUT].tolist(),
        seed=seed,
        out=out,
        level_of_theory=target.level_of_theory,
        device=device,
        cache=descriptor_cache(),
        n_jobs=cores(),
        progress=progress,
    )


def _difference(folders: Mapping[str, Path], manifests: Mapping[str, Any]) -> dict[str, Any]:
    """Return by how much a Gaussian process errs less with the source than without, by a paired bootstrap."""
    from bandgap.evaluation.heldout import load_heldout
    from bandgap.evaluation.paired import paired_difference, sentence

    ours, alone = (load_heldout(folders[name], manifests[name]) for name in (TRANSFERS[0], ALONE[0]))
    found = paired_difference(ours, alone)
    words = f"{TRANSFERS[0]}: {sentence(found, baseline=ALONE[0])}."
    return {"run": TRANSFERS[0], "baseline": ALONE[0], **vars(found), "words": words}


def _short(name: str) -> str:
    """Return the head of a column: without the words that all columns would repeat."""
    return {"coverage_95": "coverage", "width_95_eV": "width (eV)"}.get(name, label(name))
