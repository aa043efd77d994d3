"""Settings of the descriptor: presets, refused settings, and the size before computing."""

import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandgap.descriptors import (
    PRESETS,
    DescriptorConfig,
    Term,
    config_for,
    descriptor_for,
    feature_blocks,
    n_features,
)
from bandgap.descriptors.block_settings import Soap
from bandgap.descriptors.presets import K2
from bandgap.foundation.config import fingerprint, from_dict, to_dict
from bandgap.foundation.errors import ConfigError
from bandgap.structures.elements import ELEMENTS


@pytest.mark.parametrize(("preset", "expected"), [("thesis-1260", 1_260), ("oe62-16", 5_472)])
def test_preset_has_its_documented_number_of_features(preset: str, expected: int) -> None:
    assert n_features(config_for(preset=preset)) == expected


def test_config_for_species_has_the_settings_of_the_presets_and_sorted_species() -> None:
    config = config_for(species=["Pb", "H", "I", "C"])
    assert config.species == ("H", "C", "I", "Pb")
    assert dataclasses.replace(config, species=PRESETS["oe62-16"].species) == PRESETS["oe62-16"]


@given(st.permutations(["H", "C", "N", "S", "Br"]))
def test_config_does_not_depend_on_the_order_of_species(species: list[str]) -> None:
    assert fingerprint(config_for(species=species)) == fingerprint(
        config_for(species=["H", "C", "N", "S", "Br"])
    )


@given(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=12, unique=True), st.booleans())
def test_feature_blocks_of_any_species_cover_the_vector_without_gaps(
    species: list[str], with_k3: bool
) -> None:
    k3 = Term("cosine", -1.0, 1.0, 5, 0.1, "exp", 3.0, 0.01) if with_k3 else None
    config = dataclasses.replace(config_for(species=species), k3=k3)
    blocks = feature_blocks(config)
    stops = [0] + [block.stop for _, block in blocks]
    assert [block.start for _, block in blocks] == stops[:-1]
    assert stops[-1] == n_features(config)
    assert len({name for name, _ in blocks}) == len(blocks)


@pytest.mark.parametrize("name", PRESETS)
def test_config_after_json_is_the_same(name: str) -> None:
    again = from_dict(DescriptorConfig, json.loads(json.dumps(to_dict(PRESETS[name]))))
    assert again == PRESETS[name]
    assert fingerprint(again) == fingerprint(PRESETS[name])


@pytest.mark.parametrize(
    ("preset", "species", "text"),
    [
        (
            None,
            None,
            f"neither preset nor species given. Give one: a preset ({', '.join(PRESETS)}) or",
        ),
        ("oe62-16", ["H"], "both preset and species given"),
        (
            "oe62",
            None,
            f"preset is 'oe62'. Accepted: {', '.join(PRESETS)}; or give the",
        ),
        (None, [], "no species given. Accepted: chemical symbols, such as H C N O."),
        (
            None,
            ["H", "Xx"],
            "'Xx' is not a chemical element. Accepted: chemical symbols, such as H C Cl.",
        ),
        (None, ["H", "CL"], "'CL' is not a chemical element"),
        (None, ["H", "C", "H"], "the species name H 2 times. Give every element once."),
    ],
    ids=["neither", "both", "unknown preset", "empty", "no element", "wrong case", "twice"],
)
def test_config_for_wrong_arguments_says_what_is_accepted(
    preset: str | None, species: list[str] | None, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_for(preset=preset, species=species)
    assert text in str(caught.value)


def test_descriptor_for_a_few_elements_is_mbtr_of_these_elements_with_soap() -> None:
    assert descriptor_for({"Pb", "H", "I", "C", "N"}) == dataclasses.replace(
        config_for(species=["H", "C", "N", "I", "Pb"]), roots=True, soap=Soap()
    )
    assert descriptor_for(["O", "H", "O"]).elements == ("H", "O")


def test_descriptor_for_many_elements_accepts_all_and_has_a_fixed_length() -> None:
    descriptor = descriptor_for(ELEMENTS[:17])
    assert descriptor == descriptor_for(ELEMENTS[:96])
    assert descriptor.elements == ELEMENTS[:96]
    assert n_features(descriptor) == 262
    assert len(descriptor_for(ELEMENTS[:16]).terms) == 2


def test_descriptor_for_an_element_without_soap_has_no_soap() -> None:
    descriptor = descriptor_for({"Lr", "O"})
    assert descriptor.elements == ("O", "Lr")
    assert descriptor.soap is None


def test_config_with_one_term_has_only_this_term() -> None:
    pairs = DescriptorConfig(("H", "C", "O"), k2=K2)
    assert [order for order, _ in pairs.terms] == [2]
    assert n_features(pairs) == 6 * K2.n and feature_blocks(pairs)[0][0] == "H-H"
    assert pairs.elements == ("H", "C", "O")


def test_config_with_a_block_is_stored_and_read_again() -> None:
    config = dataclasses.replace(config_for(preset="thesis-1260"), composition=True)
    assert from_dict(DescriptorConfig, to_dict(config)) == config
    assert fingerprint(config) != fingerprint(config_for(preset="thesis-1260"))


@pytest.mark.parametrize("name", PRESETS)
def test_descriptor_that_was_used_can_be_pickled(name):
    used = PRESETS[name]
    assert n_features(used) > 0 and used.elements and used.reach_angstrom >= 0
    again = pickle.loads(pickle.dumps(used))
    assert again == used
    assert n_features(again) == n_features(used)
    assert again.elements == used.elements
