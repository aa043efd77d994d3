"""Make the files of an earlier version that `tests/unit/test_earlier.py` opens with the present one.

Run by hand, on the commit whose files are wanted, in a checkout of that commit:

    OMP_NUM_THREADS=1 python -m tests.earlier.make_earlier tests/earlier/written_by_COMMIT.zip

The archive holds structures of the demo data, two sources, runs with posteriors of every kind that is stored and their
predictions of a few crystals, a workspace of the dashboard with an interrupted transfer, and what the same transfer
left when it was killed in the shell. All of it is as small as the program allows. An archive that is in the repository
is never made again: a later version can only write its own files.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import safe_open

import bandgap
from bandgap.descriptors.electron_levels import Levels
from bandgap.evaluation.calibrators import MIN_TEST, CalibratorKind, fit_calibrator, save_calibrator
from bandgap.evaluation.heldout import load_heldout
from bandgap.foundation.progress import Update
from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.child import JobProgress
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.starting import Started, start_transfer
from bandgap.jobs.store import JobStore
from bandgap.jobs.tasks.transfer import transfer
from bandgap.jobs.worker import work_all
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.predictions.table import IntervalKind
from bandgap.sources.model import SourceConfig
from bandgap.storage.manifests import read_manifest
from bandgap.structures import StructureRecord
from bandgap.structures.formats.xyz import extxyz_blocks
from tests.earlier.arithmetic import arithmetic

SPECIES = ("H", "C", "N", "O")
N_MOLECULES, N_CRYSTALS, N_NEW, N_UPLOADED = 56, 50, 4, 12
EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a file in an archive, so that the same files make the same archive
LEVEL_OF_THEORY = "GFN1-xTB"

SAMPLER = {"chains": 2, "warmup": 30, "draws": 40, "keep": 12, "max_steps": 4}
STACKED = {"epochs": 20, "batch_size": 8, "learning_rate": 3e-3}
EPOCHS = {"max_epochs": 20, "batch_size": 8, "learning_rate": 3e-3}

# the transfer that is interrupted in the workspace and killed in the shell: two groups of two chains, the first of
# which has ended by then
BROKEN_OFF: dict[str, Any] = {"chains": 4, "warmup": 60, "draws": 100, "keep": 40, "max_steps": 4}
ITERATIONS = 160  # of a chain
N, N_TEST = 9, 3
KILLED_AFTER, EVERY = 140, 20  # iterations of the second group in the shell
INTERRUPTED_AFTER = 110  # iterations of the second group in the workspace, whose worker writes every 100


@dataclass(frozen=True)
class Wanted:
    """One run: its source, method and settings, the split, and what its predictions are read by."""

    source: Literal["plain", "joint"]
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    n: int = 14
    n_test: int = 3
    conformal_share: float = 0.0
    calibrator: CalibratorKind | None = None
    levels: Levels = "none"
    interval: IntervalKind = "prediction"
    level: float = 0.95


RUNS: Mapping[str, Wanted] = {
    "btl_pcp_pe": Wanted("plain", "btl_pcp_pe", {"sampler": SAMPLER}, interval="credible"),
    "btl_pcp_vi": Wanted("plain", "btl_pcp_vi", {"sampler": SAMPLER}),
    "btl_vi": Wanted("plain", "btl_vi", {"draws": 6, "kappas": [1.0], "training": {"epochs": 20}}),
    "bnn": Wanted("plain", "bnn", {"sampler": SAMPLER}),
    "fine_tune": Wanted("plain", "fine_tune", {"training": EPOCHS}),
    "nptl": Wanted("plain", "nptl", {"samples": 4, "choice_samples": 1, "alphas": [0, 1], "training": STACKED}),
    "last_layer_ridge": Wanted(
        "plain", "last_layer_ridge", {"chains": 3, "draws": 20}, n=20, n_test=30, calibrator="variance", level=0.9
    ),
    "last_layer_horseshoe": Wanted(
        "plain", "last_layer_horseshoe", {"sampler": {"chains": 2, "warmup": 50, "draws": 25, "keep": 16}}
    ),
    "feature_gp": Wanted("plain", "feature_gp", {"draws": 8, "proposals": 50, "rounds": 2}),
    "feature_gp_of_levels": Wanted(
        "plain", "feature_gp", {"draws": 8, "proposals": 50, "rounds": 2}, n=8, n_test=0, levels="GFN1-xTB"
    ),
    "kernel_ridge": Wanted("plain", "kernel_ridge", {"folds": 4, "lengths": [1.0], "penalties": [0.1]}),
    "random_forest": Wanted("plain", "random_forest", {"folds": 4, "trees": 3}),
    "gaussian_process": Wanted(
        "plain", "gaussian_process", {"restarts": 1}, n=20, n_test=14, conformal_share=0.25, calibrator="conformal",
        interval="conformal", level=0.8,
    ),
    "joint_btl_pcp_pe": Wanted("joint", "btl_pcp_pe", {"sampler": SAMPLER}),
    "joint_ptyl": Wanted("joint", "ptyl", {"members": 2, "gammas": [1, 100], "training": STACKED}),
    "joint_last_layer_pcp": Wanted("joint", "last_layer_pcp", {"chains": 2, "draws": 10}),
    "joint_feature_gp": Wanted("joint", "feature_gp", {"draws": 8, "proposals": 50, "rounds": 2}),
}  # fmt: skip


class KilledError(RuntimeError):
    """As the end of the worker's process."""


def main(archive: Path) -> None:
    """Make everything in a temporary folder and pack it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "earlier"
        about: dict[str, Any] = {"arithmetic": arithmetic()}
        timed("structures", lambda: make_structures(folder / "structures"))
        timed("sources", lambda: make_sources(folder))
        about["runs"] = timed("runs", lambda: make_runs(folder))
        about["workspace"] = timed("workspace", lambda: make_workspace(folder / "workspace", folder / "structures"))
        source = Path("workspace", "sources", about["workspace"]["source"])
        about["shell"] = timed("shell", lambda: make_shell(folder, source, Path(scratch) / "home"))
        (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        pack(folder, archive)
    sys.stderr.write(f"{archive}: {archive.stat().st_size:,} bytes\n")


def timed(what: str, make: Callable[[], Any]) -> Any:
    """Do it, say how long it took, and return what it returned."""
    started = time.perf_counter()
    made = make()
    sys.stderr.write(f"{what}: {time.perf_counter() - started:.1f} s\n")
    return made


# -- structures and sources


def make_structures(folder: Path) -> None:
    """Write small molecules and crystals of the demo with their gaps, and crystals to predict without them."""
    folder.mkdir(parents=True)
    molecules, crystals = bandgap.load_demo("molecules"), bandgap.load_demo("crystals")
    chosen = small(molecules.records, N_MOLECULES, n_atoms=range(9, 14))
    write(folder / "molecules.extxyz", chosen, dict(zip(ids(molecules.records), molecules.gaps_eV, strict=True)))
    found = small(crystals.records, N_CRYSTALS + N_NEW, n_atoms=range(10, 36))
    gaps = dict(zip(ids(crystals.records), crystals.gaps_eV, strict=True))
    write(folder / "crystals.extxyz", found[:N_CRYSTALS], gaps)
    write(folder / "uploaded.extxyz", found[:N_UPLOADED], gaps)
    foreign = next(r for r in crystals.records if r.atoms is not None and "S" in r.atoms.symbols and len(r.atoms) < 40)
    write(folder / "new.extxyz", [*found[N_CRYSTALS:], foreign], {})


def small(records: Sequence[StructureRecord], n: int, *, n_atoms: range) -> list[StructureRecord]:
    """Return the first n structures of so many atoms of the chosen elements."""
    fitting = (
        r
        for r in records
        if r.atoms is not None
        and r.status == "ready"
        and len(r.atoms) in n_atoms
        and {"H", "C"} <= set(r.atoms.symbols) <= set(SPECIES)
    )
    return [record for record, _ in zip(fitting, range(n), strict=False)]


def ids(records: Sequence[StructureRecord]) -> list[str]:
    return [record.id for record in records]


def write(path: Path, records: Sequence[StructureRecord], gaps: Mapping[str, float]) -> None:
    """Write structures with their ids, and with their gaps in eV where there are any."""
    comments: list[dict[str, Any]] = [
        {"id": r.id, **({"gap_eV": float(gaps[r.id])} if r.id in gaps else {})} for r in records
    ]
    path.write_text("".join(extxyz_blocks(records, comments)), encoding="utf-8")


def read(path: Path) -> tuple[list[StructureRecord], np.ndarray]:
    """Return structures and their gaps in eV, as every later version reads them."""
    records = list(bandgap.read_structures(path.read_bytes(), path.name))
    return records, np.array([float(r.info.get("gap_eV", np.nan)) for r in records])


def make_sources(folder: Path) -> None:
    """Train a source of one set, and one of two sets with two networks, both with all parts that transfers ask for."""
    records, gaps = read(folder / "structures" / "molecules.extxyz")
    presets = bandgap.config_for(species=SPECIES)
    plain = replace(presets, k1=replace(presets.k1, n=6), k2=replace(presets.k2, n=10))
    variational = tuple(VariationalConfig(epochs=20, batch_size=16, kl_weight=weight) for weight in (0.7, 0.1))
    config = SourceConfig(
        hidden=(8, 4),
        training=TrainingConfig(max_epochs=80, batch_size=8, learning_rate=5e-3),
        variational=variational,
        snapshots=SnapshotConfig(count=5, rank=3, burn_in=2, batch_size=16),
    )
    facts: dict[str, Any] = {"level_of_theory": LEVEL_OF_THEORY, "licence": "CC0-1.0"}
    work: dict[str, Any] = {"config": config, "device": "cpu"}
    bandgap.train_source_run(records, gaps, descriptor=plain, out=folder / "sources/plain", seed=1, **facts, **work)
    half = len(records) // 2
    bandgap.train_sources_run(
        {
            "as they are": bandgap.LabelledSet(records[:half], gaps[:half], **facts),
            "moved": bandgap.LabelledSet(records[half:], 2.0 + 0.8 * gaps[half:], "made up", "CC0-1.0"),
        },
        descriptor=replace(plain, roots=True, size=True, neutral=True),
        training=JointTrainingConfig(
            steps=200, batch_size=16, warmup_steps=10, learning_rate=1e-2, validation_share=0.2
        ),
        members=2,
        out=folder / "sources/joint",
        seed=2,
        **work,
    )


# -- runs and what they predict


def make_runs(folder: Path) -> dict[str, Any]:
    """Make every run and its tables of predictions; return what is to be known of them."""
    records, gaps = read(folder / "structures" / "crystals.extxyz")
    new, _ = read(folder / "structures" / "new.extxyz")
    about = {}
    for name, wanted in RUNS.items():
        out = bandgap.transfer_run(
            folder / "sources" / wanted.source,
            records,
            gaps,
            method=wanted.method,
            n=wanted.n,
            n_test=wanted.n_test,
            seed=5,
            conformal_share=wanted.conformal_share,
            by_formula=wanted.method == "bnn",
            levels=wanted.levels,
            settings=wanted.settings,
            device="cpu",
            out=folder / "runs" / name,
            level_of_theory=LEVEL_OF_THEORY if wanted.levels == "none" else "made up",
        )
        manifest = read_manifest(out, kind="run")
        shown: dict[str, Any] = {"level": wanted.level, "interval": wanted.interval}
        tables = {f"{name}.csv": {**shown, "calibrated": True}}
        if wanted.calibrator is not None:
            tables[f"{name}_as_trained.csv"] = {**shown, "calibrated": False}
            heldout = load_heldout(out, manifest)
            share = 1.0 - MIN_TEST / len(heldout)
            save_calibrator(out, fit_calibrator(heldout, wanted.calibrator, share=share, level=wanted.level))
        (folder / "predictions").mkdir(exist_ok=True)
        for table, how in tables.items():
            found = bandgap.predict_run(out, new, **how)
            found.to_csv(folder / "predictions" / table, level=wanted.level, kind=wanted.interval)
        about[name] = {
            "kind": manifest["posterior"]["kind"],
            "source": wanted.source,
            "method": wanted.method,
            "levels": wanted.levels,
            "tables": tables,
        }
    return about


# -- the dashboard's workspace


def make_workspace(folder: Path, structures: Path) -> dict[str, Any]:
    """Fill a data directory as a visitor and the worker would; return the ids of what is in it."""
    home = Home(folder)
    folder.mkdir()
    library, jobs, workspace = Library(home), JobStore(home), str(uuid.uuid4())
    register_methods(library)

    def finished(kind: str, subject: str, **payload: Any) -> str:
        job = jobs.submit(workspace, kind, title=kind, payload=payload, subject=subject)
        work_all(home)
        return done(job.id)

    def done(job_id: str) -> str:
        ended = jobs.job(workspace, job_id)
        assert ended is not None and ended.state == "finished", ended
        return job_id

    def uploaded(name: str, purpose: Literal["training", "prediction"] = "training") -> str:
        data = (structures / name).read_bytes()
        return library.add_dataset(workspace, name, purpose=purpose, files=[(name, data)]).id

    def labelled(name: str) -> str:
        dataset = uploaded(name)
        finished("check", dataset, dataset=dataset)
        gaps = read(structures / name)[1]
        labels = {"source": f"gap_eV of {name}", "matched": len(gaps)}
        library.save_gaps(dataset, gaps, labels=labels, level_of_theory=LEVEL_OF_THEORY)
        return dataset

    source, molecules, crystals = str(uuid.uuid4()), labelled("molecules.extxyz"), labelled("uploaded.extxyz")
    trained = {
        "name": "small molecules",
        "dataset": molecules,
        "hidden": [8, 4],
        "max_epochs": 40,
        "licence": "CC0-1.0",
    }
    finished("train_source", source, source=source, seed=0, device="cpu", **trained)

    def started(method: str, settings: Mapping[str, Any]) -> Started:
        split = {"n": N, "n_test": N_TEST, "seed": 0, "conformal_share": 0.0, "by_formula": False}
        config = {"source": source, "method": method, "device": "cpu", "settings": settings, **split}
        dataset = library.dataset(workspace, crystals)
        return start_transfer(jobs, library, dataset, config=config, title=f"{method}, n = {N}")

    transferred = started("last_layer_ridge", {"chains": 2, "draws": 50})
    work_all(home)
    done(transferred.job.id)
    new = uploaded("new.extxyz", "prediction")
    prediction = finished("predict", new, run=transferred.run, dataset=new, name="new.extxyz")
    broken = started("btl_pcp_pe", {"sampler": BROKEN_OFF})
    interrupt(home, jobs)
    return {
        "id": workspace,
        "source": source,
        "molecules": molecules,
        "crystals": crystals,
        "run": transferred.run,
        "prediction": prediction,
        "interrupted": broken.run,
        "kept": [100, ITERATIONS],
    }


def interrupt(home: Home, jobs: JobStore) -> None:
    """Do the queued transfer until the worker is killed, and let the next worker find it."""
    job = jobs.claim("a worker that was killed")
    assert job is not None
    reported = JobProgress(jobs, job.id)

    def killed(update: Update) -> None:
        reported(update)
        if update.total == 2 * ITERATIONS and update.done >= ITERATIONS + INTERRUPTED_AFTER:
            reported.flush()
            raise KilledError

    try:
        transfer(job, home, killed)
        raise AssertionError("the transfer came to its end")
    except KilledError:
        jobs.end_orphans("the next worker")


# -- the shell


def make_shell(folder: Path, source: Path, home: Path) -> dict[str, Any]:
    """Run `bandgap transfer` to its end, and again until it is killed; return its words, but for the folder `--out`."""
    words = [
        "transfer", "--source", str(source), "--structures", "structures/uploaded.extxyz", "--label", "gap_eV",
        "--method", "btl_pcp_pe", "--n", str(N), "--n-test", str(N_TEST), "--checkpoint-every", str(EVERY),
        "--set", f"sampler={json.dumps(BROKEN_OFF)}", "--level-of-theory", LEVEL_OF_THEORY, "--device", "cpu",
    ]  # fmt: skip
    command = [sys.executable, "-c", "from bandgap.cli import main; main()", *words, "--out"]
    settings: dict[str, Any] = {"cwd": folder, "env": {**os.environ, "BANDGAP_HOME": str(home)}}
    subprocess.run([*command, "shell/whole"], check=True, **settings)
    process = subprocess.Popen([*command, "shell/killed"], **settings)
    try:
        while (iteration := iteration_of(folder / "shell/killed/checkpoint/chains-1-2.safetensors")) < KILLED_AFTER:
            assert process.poll() is None, "the transfer came to its end"
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    assert iteration < ITERATIONS and not (folder / "shell/killed/manifest.json").exists()
    return {"words": words, "iteration": iteration, "total": 2 * ITERATIONS}


def iteration_of(path: Path) -> int:
    """Return the iteration that a checkpoint was written after, 0 where there is none."""
    if not path.exists():
        return 0
    with safe_open(path, framework="pt") as file:
        return int(json.loads(file.metadata()["facts"])["iteration"])


def pack(folder: Path, archive: Path) -> None:
    """Pack all files of a folder in order of their names, all of one time."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), EARLIEST)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(info, path.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
