"""Sources on the features of a pretrained potential: card, transfers, commands."""

import dataclasses
import json
import warnings

import pytest

from bandgap.descriptors import PRESETS
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.potentials import potential_card_text
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources.cards import card_rows
from bandgap.sources.stored import load_source
from bandgap.sources.training import train_source_folder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("chgnet.model.model")

DESCRIPTOR = PRESETS["chgnet"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return DescriptorCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def folder(world, cache, tmp_path_factory):
    """A source of 36 molecules on CHGNet's features with every extra."""
    config = dataclasses.replace(
        world.source_config,
        variational=(VariationalConfig(epochs=8, batch_size=8),),
        snapshots=SnapshotConfig(count=5, rank=3, burn_in=1, batch_size=8),
    )
    return train_source_folder(
        world.source_records,
        world.source_gaps_eV,
        descriptor=DESCRIPTOR,
        config=config,
        out=tmp_path_factory.mktemp("source"),
        seed=0,
        level_of_theory="made up",
        licence="CC0-1.0",
        device="cpu",
        cache=cache,
    )


def test_card_names_the_potential_and_the_licence_of_its_weights(folder, source_folder):
    card, plain = (
        json.loads((path / "manifest.json").read_text())["card"] for path in (folder, source_folder)
    )
    assert card_rows(card)["pretrained potential"] == potential_card_text("chgnet")
    assert card_rows(card)["licence of the data"] == "CC0-1.0"
    assert "pretrained potential" not in card_rows(plain)
    assert card_rows({k: v for k, v in plain.items() if k != "potential"}) == card_rows(plain)


def test_source_learns_and_passes_its_self_check(folder, world):
    source = load_source(folder)
    assert source.descriptor == DESCRIPTOR
    assert source.card.validation_rmse_eV < 0.7 * world.source_gaps_eV.std()
