"""Sources of several sets: trained, stored, transferred from and predicted with."""

import json

import numpy as np
import pytest

from bandgap.datasets.table import LabelledSet, Table
from bandgap.descriptors import featurize, n_features
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import no_progress
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.sources.joint import SourceSet
from bandgap.sources.model import SourceConfig
from bandgap.sources.sets import open_sources
from bandgap.sources.training import _with_displaced, train_sources_run
from bandgap.structures.displaced import displaced
from tests.transfers import transfer_labelled

FINE = {"training": {"max_epochs": 10, "batch_size": 8}}


@pytest.fixture(scope="module")
def sources_folder(world, tmp_path_factory):
    """Two networks with outputs for two sets of molecules, one of them with shuffled gaps."""
    half = len(world.source_records) // 2
    mixed = np.random.default_rng(0).permutation(world.source_gaps_eV[half:])
    sets = {
        "plain": LabelledSet(
            world.source_records[:half], world.source_gaps_eV[:half], "PBE", "CC0-1.0"
        ),
        "mixed up": LabelledSet(world.source_records[half:], mixed, "GW"),
    }
    return train_sources_run(
        sets,
        descriptor=world.descriptor,
        config=world.source_config,
        training=JointTrainingConfig(
            steps=400, batch_size=16, warmup_steps=10, learning_rate=1e-2, dropout=0.0
        ),
        members=2,
        out=tmp_path_factory.mktemp("sources"),
        seed=1,
        device="cpu",
    )


@pytest.fixture(scope="module")
def run(sources_folder, world, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    updates = []
    transfer_labelled(
        sources_folder,
        world.records,
        world.gaps_eV,
        method="fine_tune",
        settings=FINE,
        n=14,
        n_test=6,
        seed=5,
        out=out,
        device="cpu",
        progress=updates.append,
    )
    return out, json.loads((out / "manifest.json").read_text()), updates


def test_run_starts_from_the_output_that_predicts_best_and_names_it(run):
    source = run[1]["source"]
    assert source["head"] == "plain" and source["card"]["level_of_theory"] == "PBE"
    assert source["head_errors_eV"]["plain"] < source["head_errors_eV"]["mixed up"]
    assert source["members"] == 2
    assert source["overlap"] == {"n": 20, "structures": 0, "molecules": 20, "near_copies": 20}


def test_every_output_passes_its_self_check(sources_folder):
    (first, second) = open_sources(sources_folder).load(verify=True)
    assert list(first) == list(second) == ["plain", "mixed up"]


def brief_run(sets, world, out, **settings):
    """Train small networks for a few steps."""
    return train_sources_run(
        sets,
        descriptor=world.descriptor,
        config=SourceConfig(hidden=(4,)),
        training=JointTrainingConfig(steps=20, batch_size=16),
        seed=2,
        device="cpu",
        out=out,
        **settings,
    )


def weights(folder):
    return [
        m["plain"].params["weight.1"].numpy()
        for m in open_sources(folder).load("plain", extras=False)
    ]


def test_displaced_copies_are_described_once_and_cached_for_a_second_run(
    joint_sets, world, tmp_path
):
    cache = DescriptorCache(tmp_path / "cache")
    first = brief_run(joint_sets, world, tmp_path / "first", cache=cache)
    n = sum(len(s.records) for s in joint_sets.values())
    assert len(cache) == 2 * n
    for s in joint_sets.values():
        for records in (s.records, displaced(s.records, 0.04, seed=2)):
            assert featurize(records, world.descriptor, cache=cache).n_computed == 0
    again = brief_run(joint_sets, world, tmp_path / "again", cache=cache)
    assert len(cache) == 2 * n
    np.testing.assert_array_equal(weights(first), weights(again))


def test_displacement_is_in_the_card_and_changes_the_networks(joint_sets, world, tmp_path):
    folders = {
        d: brief_run(joint_sets, world, tmp_path / str(d), displacement_angstrom=d)
        for d in (0.0, 0.04, 0.1)
    }
    for d, folder in folders.items():
        cards = json.loads((folder / "manifest.json").read_text())["cards"]
        assert [card["displacement_angstrom"] for card in cards.values()] == [d, d]
        assert open_sources(folder).load("other")[0]["other"].card.displacement_angstrom == d
    none, some, more = (weights(folder)[0] for folder in folders.values())
    assert not np.allclose(none, some) and not np.allclose(some, more)


def test_source_without_a_displacement_in_its_cards_has_none(joint_sets, world, tmp_path):
    folder = brief_run(joint_sets, world, tmp_path / "source")
    for path in folder.rglob("manifest.json"):
        manifest = json.loads(path.read_text())
        for card in (manifest.get("card"), *manifest.get("cards", {}).values()):
            if card:
                del card["displacement_angstrom"]
        path.write_text(json.dumps(manifest))
    assert open_sources(folder).load("plain")[0]["plain"].card.displacement_angstrom == 0.0


def test_structure_whose_copy_cannot_be_described_has_its_own_features(world):
    records = [*world.records[:2], world.foreign]
    features = np.arange(3.0 * n_features(world.descriptor), dtype=np.float32).reshape(3, -1)
    source_set = SourceSet("a", features, np.arange(3.0))
    copies = _with_displaced(
        source_set,
        Table(records, features, source_set.gaps_eV),
        0.04,
        descriptor=world.descriptor,
        copies=2,
        seed=0,
        cache=None,
        n_jobs=1,
        progress=no_progress,
    ).displaced
    assert len(copies) == 2
    for number, copy in enumerate(copies):
        np.testing.assert_array_equal(copy[2], features[2])
        moved = displaced(records[:2], 0.04, seed=0, copy=number)
        np.testing.assert_array_equal(copy[:2], featurize(moved, world.descriptor).features)
