"""Runs from a graph network and from CHGNet: new process, repetition by seed, cancel."""

import functools
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from bandgap.descriptors import PRESETS
from bandgap.networks.graph_config import GraphConfig
from bandgap.networks.training import TrainingConfig
from bandgap.runs.prediction import predict_run
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder
from tests.transfers import transfer_labelled
from tests.unit.transfer.method_settings import BRIEF

NEEDS = {"graph": "torch_geometric.nn", "chgnet": "chgnet.model.model"}
GRAPH = GraphConfig(("C", "H", "O"), centres=12, embedding=8, hidden=32, width=16, blocks=2)
TRAINING = {
    "graph": functools.partial(train_source_folder, descriptor=GRAPH),
    "chgnet": functools.partial(train_source_folder, descriptor=PRESETS["chgnet"]),
}
# Of every kind.
METHODS = [
    "btl_pcp_pe",
    "fine_tune",
    "feature_gp",
    "freeze",
    "last_layer_ridge",
    "ensemble",
]
NEW_PROCESS = """
import pickle, sys
import numpy as np
from bandgap.runs.prediction import predict_run
records, runs = pickle.load(open(sys.argv[1], "rb"))
for run, out in runs:
    predictions = predict_run(run, records)
    credible = predictions.interval(0.9, "credible")
    np.savez(
        out, mean=predictions.mean_eV, prediction=predictions.interval(0.9), credible=credible
    )
"""


@pytest.fixture(scope="module", params=NEEDS)
def folder(request, world, tmp_path_factory):
    """A source of 36 molecules."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(NEEDS[request.param])
    config = SourceConfig(
        hidden=(8, 4), training=TrainingConfig(max_epochs=20, batch_size=8, learning_rate=5e-3)
    )
    out = tmp_path_factory.mktemp(request.param)
    return TRAINING[request.param](
        world.source_records, world.source_gaps_eV, config=config, out=out, seed=0, device="cpu"
    )


def transfer(folder, world, method, out, **more):
    settings = {"settings": BRIEF[method], "n": 14, "n_test": 6, "seed": 0, "device": "cpu"}
    return transfer_labelled(
        folder, world.records, world.gaps_eV, method=method, out=out, **(settings | more)
    )


def test_run_predicts_the_same_in_a_new_process(folder, world, tmp_path):
    runs = {name: transfer(folder, world, name, tmp_path / name) for name in METHODS}
    arguments = tmp_path / "given.pickle"
    arguments.write_bytes(
        pickle.dumps(
            (world.records, [(run, tmp_path / f"{name}.npz") for name, run in runs.items()])
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", NEW_PROCESS, arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, run in runs.items():
        predictions = predict_run(run, world.records)
        arrays = np.load(tmp_path / f"{name}.npz")
        assert np.isfinite(predictions.mean_eV).all() and np.ptp(predictions.mean_eV) > 0
        np.testing.assert_array_equal(arrays["mean"], predictions.mean_eV)
        np.testing.assert_array_equal(arrays["prediction"], predictions.interval(0.9))
        np.testing.assert_array_equal(arrays["credible"], predictions.interval(0.9, "credible"))


def stored(run: Path) -> dict[str, bytes]:
    """Return the files of a run but its manifest, which holds dates and times."""
    return {path.name: path.read_bytes() for path in run.iterdir() if path.name != "manifest.json"}


def test_seed_gives_the_same_files_and_another_seed_gives_others(folder, world, tmp_path):
    first, again, other = (
        stored(transfer(folder, world, "btl_pcp_pe", tmp_path / name, seed=seed))
        for name, seed in (("first", 0), ("again", 0), ("other", 1))
    )
    assert again == first and other.keys() == first.keys()
    assert [name for name in first if name.endswith(".safetensors") and other[name] != first[name]]
