"""Make the files of an earlier version that the tests in `tests/unit/earlier` open with the present one.

Run by hand, on the commit whose files are wanted, in a checkout of that commit:

    OMP_NUM_THREADS=1 python -m tests.earlier.make_earlier tests/earlier/written_by_COMMIT.zip

The archive holds structures of the demo data, two sources, runs with posteriors of every kind that is stored and their
predictions of a few crystals, a workspace of the dashboard with an interrupted transfer, and what the same transfer
left when it was killed in the shell. All of it is as small as the program allows. An archive that is in the repository
is never made again: a later version can only write its own files.
"""

import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import bandgap
from bandgap.descriptors.electron_levels import Levels
from bandgap.evaluation.calibrators import MIN_TEST, CalibratorKind, fit_calibrator, save_calibrator
from bandgap.evaluation.heldout import load_heldout
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.sources.model import SourceConfig
from bandgap.storage.manifests import read_manifest
from tests.earlier.arithmetic import arithmetic
from tests.earlier.make_broken_off import make_shell, make_workspace
from tests.earlier.make_structures import LEVEL_OF_THEORY, SPECIES, make_structures, read

EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a file in an archive, so that the same files make the same archive

SAMPLER = {"chains": 2, "warmup": 30, "draws": 40, "keep": 12, "max_steps": 4}
STACKED = {"epochs": 20, "batch_size": 8, "learning_rate": 3e-3}
EPOCHS = {"max_epochs": 20, "batch_size": 8, "learning_rate": 3e-3}


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


# -- sources


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
    bandgap.train_source_folder(records, gaps, descriptor=plain, out=folder / "sources/plain", seed=1, **facts, **work)
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


def pack(folder: Path, archive: Path) -> None:
    """Pack all files of a folder in order of their names, all of one time."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), EARLIEST)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(info, path.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
