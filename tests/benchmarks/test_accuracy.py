"""The benchmark `accuracy` on small sets: sources are trained once, and calls are resumed."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
from ase.build import molecule
from ase.io import write

from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.structures.displaced import DISPLACEMENT
from benchmarks.accuracy import LABEL, SOURCES, TARGET, AccuracyBenchmark, run_accuracy

CONFIG = AccuracyBenchmark(
    ("fine_tune@1", "feature_gp"),
    sizes=(12,),
    seeds=(0,),
    n_test=6,
    members=2,
    training=JointTrainingConfig(steps=20, batch_size=12, warmup_steps=2),
    hidden=(8, 4),
)


def write_set(path, *, seed):
    rng = np.random.default_rng(seed)
    frames = []
    for k in range(20):
        atoms = molecule(("CH4", "C2H6", "CH3OH")[k % 3])
        atoms.positions += rng.normal(0, 0.05, atoms.positions.shape)
        atoms.info = {"id": f"{seed}-{k}", LABEL: float(5 + k % 3 + rng.normal(0, 0.1))}
        frames.append(atoms)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path.with_suffix(""), frames, format="extxyz")
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
    path.with_suffix("").unlink()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for seed, name in enumerate([*(path for path, _ in SOURCES.values()), TARGET]):
        write_set(folder / name, seed=seed)
    return folder


def test_methods_are_compared_with_networks_trained_once(data, tmp_path):
    first = list(run_accuracy(data, tmp_path, CONFIG))
    assert {f.method for f in first} >= {"fine_tune@1", "feature_gp"}
    assert all(np.isfinite(f.figures["rmse_eV"]) for f in first)
    cards = json.loads((tmp_path / "source" / "manifest.json").read_text())["cards"]
    assert {card["displacement_angstrom"] for card in cards.values()} == {DISPLACEMENT}
    trained = (tmp_path / "source" / "manifest.json").stat().st_mtime_ns
    more = dataclasses.replace(CONFIG, seeds=(0, 1))
    again = list(run_accuracy(data, tmp_path, more))
    assert again[: len(first)] == first and len(again) == 2 * len(first)
    assert (tmp_path / "source" / "manifest.json").stat().st_mtime_ns == trained
