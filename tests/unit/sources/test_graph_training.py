"""Sources whose features a graph network learns: training, transfers, commands; needs `graph`."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import warnings

import ase.io
import numpy as np
import pytest
import torch

from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.heldout import load_heldout
from bandgap.foundation.errors import Cancelled
from bandgap.networks.graph_config import GraphConfig
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.predictions.table import read_predictions_csv
from bandgap.runs.prediction import predict_run
from bandgap.runs.stored import load_run
from bandgap.sources.cards import card_rows, left_out_sentence
from bandgap.sources.graph_training import train_body
from bandgap.sources.model import SourceConfig
from bandgap.sources.one_set import first_state
from bandgap.sources.stored import load_source
from bandgap.sources.training import train_source_folder
from bandgap.transfer import METHODS
from tests.transfers import transfer_labelled
from tests.unit.transfer.method_settings import BRIEF

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torch_geometric.nn")

GRAPH = GraphConfig(("C", "H", "O"), centres=12, embedding=8, hidden=32, width=16, blocks=2)
TRAINING = TrainingConfig(
    max_epochs=60, patience=30, plateau_epochs=15, batch_size=8, learning_rate=5e-3
)


def trained(world, **more):
    settings = {"graph": GRAPH, "hidden": (8, 4), "training": TRAINING, "seed": 0, "device": "cpu"}
    return train_body(world.source_records, world.source_gaps_eV, **(settings | more))


@pytest.fixture(scope="module")
def folder(world, tmp_path_factory):
    """A source of 36 molecules with every extra."""
    return train_source_folder(
        [*world.source_records, world.broken, world.foreign],
        np.append(world.source_gaps_eV, [np.nan, 5.0]),
        descriptor=GRAPH,
        config=SourceConfig(
            hidden=(8, 4),
            training=TRAINING,
            variational=(VariationalConfig(epochs=8, batch_size=8),),
            snapshots=SnapshotConfig(count=5, rank=3, burn_in=1, batch_size=8),
        ),
        out=tmp_path_factory.mktemp("source"),
        seed=0,
        level_of_theory="made up",
        licence="CC0-1.0",
        device="cpu",
    )


def test_network_learns_and_stops_at_its_best_epoch(world):
    body = trained(world, training=dataclasses.replace(TRAINING, max_epochs=400))
    errors = [epoch.validation for epoch in body.history]
    assert 40 < len(errors) < 400
    assert len(errors) - 1 - int(np.argmin(errors)) == 30
    assert body.rmse_eV == pytest.approx(min(errors) ** 0.5 * world.source_gaps_eV.std())
    assert body.rmse_eV < 0.2 * world.source_gaps_eV.std()
    assert body.epoch_s > 0
    assert f"{len(errors)} epochs of {body.epoch_s:.1f} s on cpu" in body.card_text


def test_network_depends_on_the_seed_only(world):
    quick = dataclasses.replace(TRAINING, max_epochs=2)
    first = trained(world, training=quick)
    torch.rand(7)
    assert trained(world, training=quick).body.digest == first.body.digest
    assert trained(world, training=quick, seed=1).body.digest != first.body.digest


def test_held_out_rows_do_not_change_the_network(world):
    """They are those of the source network's training with this seed."""
    quick = dataclasses.replace(TRAINING, max_epochs=3, patience=3)
    n = len(world.source_records)
    shape = NetworkConfig(GRAPH.n_features, (8, 4))
    held_out = first_state(shape, quick, n=n, seed=0)[2].held_out.numpy()
    assert len(held_out) == round(0.2 * n)
    order = np.arange(n)
    # Mean and standard deviation of the gaps are unchanged.
    order[held_out] = np.roll(held_out, 1)
    swapped = dataclasses.replace(world, source_gaps_eV=world.source_gaps_eV[order])
    one, other = (trained(w, training=quick).history for w in (world, swapped))
    np.testing.assert_allclose([e.train for e in one], [e.train for e in other], rtol=1e-5)
    assert one[0].validation != pytest.approx(other[0].validation)


@pytest.mark.parametrize("after", [1, 5, 20])
def test_cancel_ends_the_training(world, after):
    updates = []

    def cancel(update):
        updates.append(update)
        if len(updates) == after:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        trained(world, progress=cancel)
    assert len(updates) == after


def test_source_contains_network_card_and_error_and_loads_again(folder, world):
    source = load_source(folder)
    body = source.descriptor.graph
    assert body.config == GRAPH and source.network.n_features == GRAPH.n_features
    # Without silane.
    assert source.card.n_structures == 36
    assert source.card.elements == ("C", "H", "O")
    assert source.card.validation_rmse_eV < 0.3 * world.source_gaps_eV.std()
    card = json.loads((folder / "manifest.json").read_text())["card"]
    text = card_rows(card)["graph network"]
    assert text.startswith("MEGNet (Chen et al., 2019), 2 blocks")
    assert "leaves its blocks as they are and moves the layers above" in text
    assert set(source.extras) == {"features", "fisher", "variational", "snapshots"}


@pytest.mark.parametrize("method", ["fine_tune", "last_layer_ridge"])
def test_method_transfers_from_such_a_source_and_reproduces_its_test_predictions(
    folder, world, tmp_path, method
):
    transfer_labelled(
        folder,
        world.records,
        world.gaps_eV,
        method=method,
        settings=BRIEF.get(method, {}),
        n=14,
        n_test=6,
        out=tmp_path,
        seed=0,
        device="cpu",
        cache=DescriptorCache(tmp_path / "cache"),
    )
    run = load_run(tmp_path)
    assert run.descriptor == load_source(folder, verify=False).descriptor
    warnings_on_blocks = [
        text
        for text in run.manifest["warnings"]
        if text.startswith("The graph blocks of the source model are not")
    ]
    families = ("all layers, Bayesian", "many trained networks", "one trained network")
    assert len(warnings_on_blocks) == (METHODS[method].family in families)
    heldout = load_heldout(tmp_path, run.manifest)
    records = {record.id: record for record in world.records}
    predictions = predict_run(tmp_path, [records[i] for i in heldout.predictions.ids])
    np.testing.assert_allclose(predictions.mean_eV, heldout.predictions.mean_eV, rtol=0, atol=1e-3)


@pytest.mark.parametrize("method", ["feature_gp", "fine_tune", "gaussian_process"])
def test_unknown_elements_are_left_out_with_advice(folder, world, tmp_path, method):
    """Only a method without transfer accepts silane, with a descriptor for all elements."""
    records = [*world.records, world.foreign]
    gaps = np.append(world.gaps_eV, 6.0)
    transfer_labelled(
        folder,
        records,
        gaps,
        method=method,
        settings=BRIEF.get(method, {}),
        n_test=0,
        out=tmp_path,
        seed=0,
        device="cpu",
    )
    run = load_run(tmp_path)
    message = left_out_sentence(run.manifest)
    if method == "gaussian_process":
        assert message == ""
        assert "Si" in run.descriptor.elements
        assert run.manifest["n"] == 25
        return
    assert run.manifest["n"] == 24
    assert message.startswith("1 of 25 labelled structures was left out: foreign.")
    assert "cannot be grown by Si, so that no method that transfers learns them" in message


def test_commands_train_transfer_and_predict_in_three_processes(world, tmp_path):
    for name, records, gaps in (
        ("source", world.source_records, world.source_gaps_eV),
        ("target", world.records, world.gaps_eV),
    ):
        frames = [record.atoms.copy() for record in records]
        for atoms, record, gap in zip(frames, records, gaps, strict=True):
            atoms.info = {"id": record.id, "gap_eV": float(gap)}
        ase.io.write(tmp_path / f"{name}.extxyz", frames, format="extxyz")
    labelled = ["--label", "gap_eV", "--structures"]

    def shell(*words, code=0):
        command = [sys.executable, "-c", "from bandgap.cli import main; main()", *map(str, words)]
        wide = {**os.environ, "COLUMNS": "200"}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=wide,
            timeout=900,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    words = ("train-source", *labelled, "source.extxyz", "--network", "megnet", "--out", "source")
    assert "leave out preset and species" in shell(*words, "--species", "H C O", code=1)
    output = shell(*words)
    assert "graph network: MEGNet (Chen et al., 2019), 3 blocks" in output
    manifest = json.loads((tmp_path / "source" / "manifest.json").read_text(encoding="utf-8"))
    n_epochs = re.search(r"; (\d+) epochs of ", manifest["card"]["graph"])[1]
    (timing,) = re.findall(r"^.*\(median\)$", output, re.MULTILINE)
    assert timing.startswith(f"graph network: {n_epochs} epochs, ")
    transfer = ("transfer", "--source", "source", *labelled, "target.extxyz")
    shell(*transfer, "--method", "feature_gp", "--n", "16", "--n-test", "6", "--out", "run")
    shell("predict", "--model", "run", "--structures", "target.extxyz", "--out", "table.csv")
    rows = read_predictions_csv(tmp_path / "table.csv")
    assert len(rows) == len(world.records) and (rows["status"] != "refused").all()
    assert np.abs(rows["mean_eV"] - world.gaps_eV).mean() < 0.5 * world.gaps_eV.std()
