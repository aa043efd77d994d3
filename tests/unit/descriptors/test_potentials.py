"""Pretrained potentials as descriptors: the registry, their elements, and missing packages."""

import dataclasses

import numpy as np
import pytest

from bandgap.descriptors import (
    PRESETS,
    DescriptorConfig,
    descriptor_for,
    feature_blocks,
    n_features,
    similarity_features,
)
from bandgap.descriptors.potentials import (
    FOR_DATA_SETS,
    POTENTIALS,
    potential_card_text,
    potential_obstacle,
    potentials_for,
)
from bandgap.descriptors.potentials.protocol import Potential

EVERY_POTENTIAL = pytest.mark.parametrize("name", POTENTIALS)


@EVERY_POTENTIAL
def test_preset_of_a_potential_has_no_other_block(name: str):
    config = PRESETS[name]
    potential = POTENTIALS[name]
    assert config == DescriptorConfig(potential=name)
    assert config.elements == potential.elements
    assert feature_blocks(config) == (
        (f"{potential.title} features", slice(0, potential.n_features)),
    )
    assert n_features(config) == potential.n_features
    rows = np.ones((2, potential.n_features))
    assert similarity_features(rows, config).shape == rows.shape


@EVERY_POTENTIAL
def test_card_text_names_potential_reference_and_licence(name: str):
    potential = POTENTIALS[name]
    text = potential_card_text(name)
    for entry in (potential.title, potential.reference, potential.licence):
        assert entry and entry in text
    assert potential_card_text("none") == ""


@pytest.mark.parametrize("n", [5, 30], ids=["few elements", "many elements"])
def test_descriptor_of_a_data_set_with_a_potential_has_its_features_in_addition(n: int):
    elements = POTENTIALS["chgnet-two-layers"].elements[:n]
    without = descriptor_for(elements)
    descriptor = descriptor_for(elements, potential="chgnet-two-layers")
    assert descriptor == dataclasses.replace(without, potential="chgnet-two-layers")
    assert n_features(descriptor) == n_features(without) + 384


def test_potential_of_a_data_set_is_installed_and_knows_its_elements(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert potentials_for(("Pb", "I"))[0] == "chgnet-two-layers"
    assert potentials_for(("Po", "I"))[0] == "none"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert potentials_for(("Pb", "I"))[0] == "none"


def test_second_potential_is_used_if_the_first_lacks_an_element(monkeypatch):
    monkeypatch.setattr(Potential, "is_installed", True)
    wider = dataclasses.replace(
        FOR_DATA_SETS[0], name="wider", elements=(*FOR_DATA_SETS[0].elements, "Po")
    )
    monkeypatch.setattr("bandgap.descriptors.potentials.FOR_DATA_SETS", (*FOR_DATA_SETS, wider))
    assert potentials_for(("Pb", "I"))[0] == "chgnet-two-layers"
    assert potentials_for(("Po", "I"))[0] == "wider"
    assert potential_obstacle({"a": ("Po",)} | {f"s{k}": ("Pb", "I") for k in range(30)}) == ""


@pytest.mark.parametrize(
    ("n_polonium", "n", "is_installed", "message"),
    [
        (
            1,
            20,
            True,
            "does not know Po (in 1 of 20 structures: s0). So that these can be learned from, the ",
        ),
        (5, 100, True, "Po (in 5 of 100 structures: s0, s1, s2, s3 and 1 more)"),
        (2, 20, True, ""),
        (0, 20, True, ""),
        (1, 20, False, ""),
    ],
    ids=["one", "five", "not few", "none", "not installed"],
)
def test_few_structures_that_prevent_the_use_of_a_potential_are_named(
    n_polonium, n, is_installed, message, monkeypatch
):
    monkeypatch.setattr(Potential, "is_installed", is_installed)
    elements = {f"s{k}": ("Po", "O") if k < n_polonium else ("Pb", "O") for k in range(n)}
    obstacle = potential_obstacle(elements)
    assert message in obstacle
    assert bool(obstacle) == bool(message)


def test_two_installed_potentials_are_two_blocks_of_a_data_set(monkeypatch):
    monkeypatch.setattr(Potential, "is_installed", True)
    names = potentials_for(("Pb", "I"))
    assert names == ("chgnet-two-layers", "sevennet-mf-0")
    assert potentials_for(("Po", "I")) == ("none", "none")
    descriptor = descriptor_for(("Pb", "I"), potential=names[0], second_potential=names[1])
    assert [name for name, _ in feature_blocks(descriptor)][-2:] == [
        f"{POTENTIALS[name].title} features" for name in names
    ]
    assert n_features(descriptor) == n_features(descriptor_for(("Pb", "I"))) + 2 * 384
