"""The learning curve of a run: nested subsets, its own method, the run itself as the last point."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.table import LabelledSet
from bandgap.foundation.errors import InputError
from bandgap.runs.learning_curve import measure_learning_curve
from bandgap.runs.refit import refit_run
from bandgap.structures import read_structures
from tests.transfers import transfer_labelled

WATER = (
    '3\nProperties=species:S:1:pos:R:3 id="w{k:03d}" pbc="F F F"\nO 0 0 {height:.6f}\n'
    "H {half:.6f} 0 0.504\nH -0.758 0 0.504\n"
)
N = 84
METHOD = {"method": "kernel_ridge", "species": ("H", "O"), "n": 60, "n_test": 24, "seed": 3}


@pytest.fixture(scope="module")
def data() -> LabelledSet:
    """Distorted waters; their gap depends on the shape, with noise."""
    rng = np.random.default_rng(0)
    heights = rng.uniform(-0.3, 0.2, N)
    halves = rng.uniform(0.7, 0.9, N)
    text = "".join(WATER.format(k=k, height=heights[k], half=halves[k]) for k in range(N))
    gaps = 6 - 3 * heights + 4 * halves**2 + 0.05 * rng.normal(size=N)
    return LabelledSet(read_structures(text.encode(), "waters.extxyz"), gaps, "made up")


@pytest.fixture(scope="module")
def run(data: LabelledSet, tmp_path_factory) -> Path:
    """A run on 60 waters, 24 held out; tests do not change it."""
    out = tmp_path_factory.mktemp("curve") / "run"
    return transfer_labelled(
        None, data.records, data.gaps_eV, out=out, level_of_theory="made up", **METHOD
    )


def test_last_point_is_the_run_and_fewer_labels_have_larger_errors(run, data) -> None:
    curve = measure_learning_curve(run, None, data)
    assert curve.sizes == (15, 30, 45, 60)
    assert curve.n_test == 24
    manifest = json.loads((run / "manifest.json").read_text())
    assert curve.rmse_eV[:, -1] == pytest.approx(manifest["metrics"]["rmse_eV"])
    mean = curve.rmse_eV.mean(axis=0)
    assert mean[0] > 1.3 * mean[-1]
    assert len(set(curve.rmse_eV[:, 0])) == 3  # each draw is another subset


def test_point_is_the_error_of_a_run_on_the_same_labels(run, data, tmp_path) -> None:
    """A subset of the training set, learned from by `transfer_run`, has the error of the curve."""
    curve = measure_learning_curve(run, None, data, n_seeds=1)
    manifest = json.loads((run / "manifest.json").read_text())
    train = manifest["split"]["train"]
    test = manifest["split"]["test"]
    rows = np.random.default_rng([METHOD["seed"], 0]).permutation(60)
    for size, error in zip(curve.sizes[:2], curve.rmse_eV[0], strict=False):
        ids = {train[row] for row in rows[:size]} | set(test)
        member = [k for k, record in enumerate(data.records) if record.id in ids]
        fields = {**METHOD, "n": None, "n_test": None, "test_ids": tuple(test)}
        folder = transfer_labelled(
            None,
            [data.records[k] for k in member],
            data.gaps_eV[member],
            out=tmp_path / str(size),
            **fields,
        )
        figures = json.loads((folder / "manifest.json").read_text())["metrics"]
        # the rows are in another order, which changes folds and sums a little
        assert error == pytest.approx(figures["rmse_eV"], rel=0.02)


def test_curve_is_repeatable_and_leaves_the_run_as_it_was(run, data) -> None:
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    first, second = (measure_learning_curve(run, None, data, n_seeds=2) for _ in range(2))
    assert first.to_values() == second.to_values()
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_other_labels_a_refit_and_few_labels_are_refused(run, data, tmp_path) -> None:
    other = LabelledSet(data.records, data.gaps_eV + 0.1, "made up")
    with pytest.raises(InputError, match="the labelled structures differ"):
        measure_learning_curve(run, None, other)
    refit = refit_run(run, None, data, out=tmp_path / "refit")
    with pytest.raises(InputError, match="refitted on all labels already"):
        measure_learning_curve(refit, None, data)
    small = tmp_path / "small"
    shutil.copytree(run, small)
    path = small / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "n": 30}))
    with pytest.raises(InputError, match="small learned from 30 labels"):
        measure_learning_curve(small, None, data)
    with pytest.raises(InputError, match="n_sizes from 3"):
        measure_learning_curve(run, None, data, n_sizes=2)
