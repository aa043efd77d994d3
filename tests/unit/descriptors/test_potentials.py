"""Pretrained potentials as descriptors: which there are, what each takes, and what is said without its package."""

import dataclasses
import sys

import numpy as np
import pytest

from bandgap.descriptors import (
    PRESETS,
    DescriptorConfig,
    descriptor_for,
    feature_blocks,
    featurize,
    n_features,
    similarity_features,
)
from bandgap.descriptors.potentials import (
    FOR_DATA_SETS,
    POTENTIALS,
    kept_from_potential,
    potential_for,
    potential_words,
)
from bandgap.descriptors.potentials.protocol import Potential
from bandgap.foundation.errors import ConfigError
from tests.unit.descriptors.samples import ethanol, record

EACH = pytest.mark.parametrize("name", POTENTIALS)


@EACH
def test_preset_of_a_potential_describes_by_it_alone(name: str):
    config, potential = PRESETS[name], POTENTIALS[name]
    assert config == DescriptorConfig(potential=name)
    assert config.elements == potential.elements
    assert feature_blocks(config) == (
        (f"{potential.title} features", slice(0, potential.n_features)),
    )
    assert n_features(config) == potential.n_features
    rows = np.ones((2, potential.n_features))
    assert similarity_features(rows, config).shape == rows.shape


@EACH
def test_words_for_the_card_name_potential_reference_and_licence(name: str):
    potential, words = POTENTIALS[name], potential_words(name)
    assert all(
        part and part in words for part in (potential.title, potential.reference, potential.licence)
    )
    assert potential_words("none") == ""


def test_unknown_potential_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match="potential is 'MACE'. Accepted: none, chgnet"):
        DescriptorConfig(potential="MACE")


def test_missing_package_is_said_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "chgnet.model.model", None)
    with pytest.raises(
        ConfigError,
        match=r"chgnet, which is not installed.*pip install -c constraints.txt '\.\[chgnet\]'",
    ):
        featurize([record(ethanol())], PRESETS["chgnet"])


def test_element_that_the_potential_does_not_know_is_the_problem_of_its_structure():
    from bandgap.descriptors.mbtr import obstacle

    atoms = ethanol()
    atoms.symbols[0] = "Po"
    found = obstacle(atoms, PRESETS["chgnet"])
    assert found is not None and found.startswith(
        "contains Po, which the descriptor was not set up for; accepted: H "
    )
    atoms.symbols[0] = "Pb"
    assert obstacle(atoms, PRESETS["chgnet"]) is None


@pytest.mark.parametrize("n", [5, 30], ids=["few elements", "many elements"])
def test_descriptor_of_a_data_set_has_the_potential_behind_what_it_has_without(n: int):
    elements = POTENTIALS["chgnet-two-layers"].elements[:n]
    plain, beside = (
        descriptor_for(elements),
        descriptor_for(elements, potential="chgnet-two-layers"),
    )
    assert beside == dataclasses.replace(plain, potential="chgnet-two-layers")
    assert n_features(beside) == n_features(plain) + 384


def test_potential_of_a_data_set_is_one_that_is_installed_and_knows_its_elements(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert potential_for(("Pb", "I")) == "chgnet-two-layers"
    assert potential_for(("Po", "I")) == "none"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert potential_for(("Pb", "I")) == "none"


def test_second_potential_of_the_table_is_taken_where_the_first_lacks_an_element(monkeypatch):
    monkeypatch.setattr(Potential, "installed", True)
    wider = dataclasses.replace(
        FOR_DATA_SETS[0], name="wider", elements=(*FOR_DATA_SETS[0].elements, "Po")
    )
    monkeypatch.setattr("bandgap.descriptors.potentials.FOR_DATA_SETS", (*FOR_DATA_SETS, wider))
    assert potential_for(("Pb", "I")) == "chgnet-two-layers"
    assert potential_for(("Po", "I")) == "wider"
    assert kept_from_potential({"a": ("Po",)} | {f"s{k}": ("Pb", "I") for k in range(30)}) == ""


@pytest.mark.parametrize(
    ("n_polonium", "n", "installed", "said"),
    [
        (
            1,
            20,
            True,
            "does not know Po (in 1 of 20 structures: s0). So that these can be learned from, the descriptor of",
        ),
        (5, 100, True, "Po (in 5 of 100 structures: s0, s1, s2, s3 and 1 more)"),
        (2, 20, True, ""),
        (0, 20, True, ""),
        (1, 20, False, ""),
    ],
    ids=["one", "five", "not few", "none", "not installed"],
)
def test_few_structures_that_keep_a_data_set_from_a_potential_are_named(
    n_polonium, n, installed, said, monkeypatch
):
    monkeypatch.setattr(Potential, "installed", installed)
    found = kept_from_potential(
        {f"s{k}": ("Po", "O") if k < n_polonium else ("Pb", "O") for k in range(n)}
    )
    assert said in found and bool(found) == bool(said)
