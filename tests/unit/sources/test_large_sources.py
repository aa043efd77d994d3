"""Sources of large sets: bitwise equal results with features on disk, and test rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.datasets.table import LabelledSet, learnable
from bandgap.networks import row_blocks
from bandgap.networks.row_blocks import StandardisedRows
from bandgap.networks.standardise import Standardiser, fit_standardiser
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources import held_back
from bandgap.sources.added_extras import add_extras_run
from bandgap.sources.held_back import without_test_rows
from bandgap.sources.model import SourceConfig
from bandgap.sources.stored import load_source, source_predictions_eV
from bandgap.sources.training import train_source_folder


def trained(world, out, **changes):
    config = replace(world.source_config, **changes)
    return train_source_folder(
        world.source_records,
        world.source_gaps_eV,
        descriptor=world.descriptor,
        config=config,
        out=out,
        seed=3,
        device="cpu",
    )


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def on_disk(monkeypatch):
    """Return a function after which every set counts as large, with chunks of a few rows."""

    def switch():
        monkeypatch.setattr(row_blocks, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(row_blocks, "ROWS_PER_CHUNK", 7)
        monkeypatch.setattr(held_back, "IN_MEMORY_BYTES", 0)

    return switch


def test_features_on_disk_give_the_same_bytes_as_in_memory(world, tmp_path, on_disk):
    changes = {
        "split": (len(world.source_records) - 12, 8),
        "variational": (VariationalConfig(epochs=5, batch_size=16),),
        "snapshots": SnapshotConfig(count=3, rank=2, burn_in=1, batch_size=16),
    }
    expected = files_of(trained(world, tmp_path / "memory", **changes))
    on_disk()
    assert files_of(trained(world, tmp_path / "disk", **changes)) == expected


def test_features_above_the_limit_are_mapped(world):
    settings = {"descriptor": world.descriptor, "mapped_from_bytes": 0}
    gaps = np.where(np.arange(len(world.source_gaps_eV)) % 5 == 2, np.nan, world.source_gaps_eV)
    table = learnable(world.source_records, gaps, **settings)
    plain = learnable(world.source_records, gaps, descriptor=world.descriptor)
    assert isinstance(table.features, np.memmap) and not isinstance(plain.features, np.memmap)
    np.testing.assert_array_equal(table.features, plain.features)


def test_rows_standardised_on_use_are_those_standardised_before():
    rng = np.random.default_rng(0)
    raw = rng.normal(1.0, 2.0, (50, 6)).astype(np.float32)
    raw[:, 4] = 1.0
    scale = fit_standardiser(raw, rng.normal(size=50))
    scale = Standardiser(scale.x_mean, scale.x_scale, 0.0, 1.0, power=2.0)
    silent = np.arange(6) == 4
    used = np.arange(6) != 1
    expected = torch.from_numpy(scale.features(raw)).float()
    expected[:, 4] = 0.0
    rows = torch.tensor([7, 3, 49, 3])
    lazy = StandardisedRows(raw, scale, silent=silent).to("cpu")
    assert torch.equal(lazy[rows], expected[rows])
    assert lazy.shape == (50, 6)
    narrow = StandardisedRows(raw, scale, used=used, silent=silent).to("cpu")
    expected_narrow = expected[:, torch.from_numpy(used)]
    assert torch.equal(torch.cat(list(narrow.blocks(16))), expected_narrow)
    assert torch.equal(narrow[rows], expected_narrow[rows])
    assert narrow.shape == (50, 5)


def test_split_holds_out_test_rows_and_reports_their_error(world, tmp_path):
    n = len(world.source_records)
    folder = trained(world, tmp_path / "source", split=(n - 20, 8))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["card"]["n_structures"], manifest["card"]["n_test"]) == (n - 12, 12)
    assert manifest["config"]["split"] == [n - 20, 8]
    source = load_source(folder)
    table = learnable(world.source_records, world.source_gaps_eV, descriptor=world.descriptor)
    used, test = without_test_rows(table, (n - 20, 8), seed=3)
    assert test is not None
    assert sorted(used.ids + test.ids) == sorted(table.ids)
    assert len(test) == 12
    errors = source_predictions_eV(source, test.features) - test.gaps_eV
    assert manifest["metrics"]["test_rmse_eV"] == pytest.approx(
        np.sqrt(np.mean(errors**2)), rel=1e-12
    )
    assert round(source.config.training.validation_share * (n - 12)) == 8


def test_extras_of_a_source_with_test_rows_do_not_use_them(world, tmp_path):
    n = len(world.source_records)
    folder = trained(world, tmp_path / "source", split=(n - 20, 8))
    add_extras_run(
        folder,
        {"": LabelledSet(world.source_records, world.source_gaps_eV)},
        extras=SourceConfig(snapshots=SnapshotConfig(count=3, rank=2, burn_in=1, batch_size=16)),
        device="cpu",
    )
    again = load_source(folder)
    assert again.snapshots is not None and again.features is not None and again.features.n == n - 12
