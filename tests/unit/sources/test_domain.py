"""Structures compared with the training structures of a source: near, far, unknown elements."""

import json
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.table import Table
from bandgap.descriptors import config_for
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.networks.training import TrainingConfig
from bandgap.sources.domain import COLUMNS, DOMAIN, judge, load_domain, save_domain
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder
from bandgap.structures import StructureRecord, read_structures

WATER = "3\n\nO 0 0 0.119\nH 0 {y:.3f} -0.477\nH 0 -{y:.3f} -0.477\n"


def waters(n: int, *, start: float = 0.70) -> list[StructureRecord]:
    text = "".join(WATER.format(y=start + 0.004 * k) for k in range(n))
    return read_structures(text.encode(), "waters.xyz")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small source network, trained on water molecules."""
    config = SourceConfig(hidden=(4, 2), training=TrainingConfig(max_epochs=2))
    out = tmp_path_factory.mktemp("source")
    descriptor = config_for(species=("H", "O", "S"))
    return train_source_folder(
        waters(30),
        np.linspace(6.0, 9.0, 30),
        descriptor=descriptor,
        config=config,
        out=out,
        seed=0,
        device="cpu",
    )


def test_training_structure_is_inside_and_is_its_own_nearest(source: Path) -> None:
    record = waters(30)[12]
    table, summary = judge(source, [record])
    assert tuple(table) == COLUMNS
    row = table.iloc[0]
    assert (row["judgement"], row["nearest"], row["unseen"]) == ("inside", record.id, "")
    assert row["distance"] == pytest.approx(0.0, abs=1e-6)
    assert row["percentile"] == 0.0
    assert (summary["n"], summary["far"], summary["unseen"], summary["n_known"]) == (1, 0, {}, 30)


def test_distorted_unknown_and_refused_structures_are_distinguished(source: Path) -> None:
    far = waters(1, start=1.40)
    sulphide = read_structures(b"3\n\nS 0 0 0.1\nH 0 0.97 -0.82\nH 0 -0.97 -0.82\n", "h2s.xyz")
    chloride = read_structures(b"2\n\nCl 0 0 0\nH 0 0 1.28\n", "hcl.xyz")
    refused = read_structures(b"data_x\n_cell_length_a nonsense\n", "x.cif")
    table, summary = judge(source, [*far, *sulphide, *chloride, *refused])
    assert list(table["judgement"]) == [
        "outside: farther than all of the source's own",
        "contains S, never seen by the source model; outside: farther than all of the source's own",
        "contains Cl, never seen by the source model; "
        "no distance: the descriptor of this source does not know all of its elements",
        "refused",
    ]
    assert np.isnan(table["distance"]).tolist() == [False, False, True, True]
    assert summary["unseen"] == {"S": 1, "Cl": 1}
    assert (summary["n"], summary["far"]) == (2, 2)
    assert json.loads(json.dumps(summary))["species"] == ["H", "O"]


def test_source_stored_without_a_domain_says_how_to_add_it(source: Path, tmp_path: Path) -> None:
    for path in source.iterdir():
        if path.name != DOMAIN:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"stored without the directions .* Train it again"):
        judge(tmp_path, waters(1))


def test_damaged_domain_is_named(tmp_path: Path) -> None:
    (tmp_path / DOMAIN).write_bytes(b"\x00 damaged")
    with pytest.raises(ArtifactError, match=r"domain\.safetensors cannot be read .* make it again"):
        load_domain(tmp_path)


def test_large_source_stores_a_thousand_structures_of_all_sets_and_every_element(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    records = waters(1)
    tables = [
        Table(records * n, rng.random((n, 6), dtype=np.float32), np.zeros(n)) for n in (700, 900)
    ]
    chloride = read_structures(b"2\n\nCl 0 0 0\nH 0 0 1.28\n", "hcl.xyz")
    tables.append(Table(chloride, rng.random((1, 6), dtype=np.float32), np.zeros(1)))
    save_domain(tmp_path, tables, config_for(species=("H", "O")))
    domain = load_domain(tmp_path)
    assert len(domain.ids) == 1_000 and domain.source_species == ("Cl", "H", "O")
    features = np.concatenate([table.features for table in tables])
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    assert np.isclose(unit @ domain.directions.T, 1.0, atol=1e-6).any(axis=1).sum() == 1_000
