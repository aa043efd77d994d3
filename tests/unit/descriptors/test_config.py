"""Settings of the descriptor: presets, refused settings, and the size before computing."""

import dataclasses
import json
import pickle

import ase.data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandgap.descriptors import (
    PRESETS,
    DescriptorConfig,
    Term,
    config_for,
    descriptor_for,
    estimate,
    feature_blocks,
    n_features,
)
from bandgap.descriptors.block_settings import Soap
from bandgap.descriptors.presets import K1, K2
from bandgap.foundation.config import fingerprint, from_dict, to_dict
from bandgap.foundation.errors import ConfigError
from bandgap.structures.elements import ELEMENTS


@pytest.mark.parametrize(("preset", "expected"), [("thesis-1260", 1_260), ("oe62-16", 5_472)])
def test_preset_has_its_documented_number_of_features(preset: str, expected: int) -> None:
    assert n_features(config_for(preset=preset)) == expected


def test_preset_of_52_points_stays_below_8000_features() -> None:
    finer = dataclasses.replace(
        PRESETS["oe62-16"], k1=dataclasses.replace(K1, n=52), k2=dataclasses.replace(K2, n=52)
    )
    assert n_features(finer) == 7_904


def test_config_for_species_has_the_settings_of_the_presets_and_sorted_species() -> None:
    config = config_for(species=["Pb", "H", "I", "C"])
    assert config.species == ("H", "C", "I", "Pb")
    assert dataclasses.replace(config, species=PRESETS["oe62-16"].species) == PRESETS["oe62-16"]


def test_elements_are_those_of_ase() -> None:
    assert list(ELEMENTS) == ase.data.chemical_symbols[1:]


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


def test_estimate_of_oe62_is_four_bytes_per_value() -> None:
    need = estimate(PRESETS["oe62-16"], 61_489)
    assert (need.n_features, need.n_bytes) == (5_472, 61_489 * 5_472 * 4)


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


def test_descriptor_for_no_element_says_what_is_accepted() -> None:
    with pytest.raises(
        ConfigError, match=r"'Xx' is not a chemical element\. Accepted: chemical symbols"
    ):
        descriptor_for({"H", "Xx"})
    with pytest.raises(ConfigError, match=r"no species given\. Accepted: chemical symbols"):
        descriptor_for(set())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"minimum": 2.0}, "MBTR grid runs from 2.0 to 1.1. The minimum must be smaller."),
        ({"cutoff_angstrom": None}, "MBTR weighting 'exp' needs a cutoff_angstrom."),
        ({"threshold": None}, "MBTR weighting 'exp' needs a threshold."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_term_without_a_grid_or_a_weight_is_refused(
    changes: dict[str, float | None], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        dataclasses.replace(K2, **changes)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_config_with_wrong_function_of_a_term_says_what_is_accepted() -> None:
    with pytest.raises(
        ConfigError, match=r"k1 has function 'inverse_distance'\. Accepted: atomic_number\."
    ):
        DescriptorConfig(("H",), k1=K2, k2=K2)


def test_config_with_unweighted_pairs_says_what_is_accepted() -> None:
    open_range = dataclasses.replace(K2, weighting="none")
    with pytest.raises(
        ConfigError, match=r"k2 has weighting 'none'\. Accepted: exp, inverse_square\."
    ):
        DescriptorConfig(("H",), k1=K1, k2=open_range)


def test_config_with_one_term_has_only_this_term() -> None:
    pairs = DescriptorConfig(("H", "C", "O"), k2=K2)
    assert [order for order, _ in pairs.terms] == [2]
    assert n_features(pairs) == 6 * K2.n and feature_blocks(pairs)[0][0] == "H-H"
    assert pairs.elements == ("H", "C", "O")


def test_config_without_similarity_features_says_what_is_accepted() -> None:
    with pytest.raises(
        ConfigError,
        match=r"nothing that measures how similar structures are\. Accepted: a term of MBTR",
    ):
        DescriptorConfig(size=True)
    with pytest.raises(
        ConfigError,
        match=r"species H C given without a term of MBTR\. Give a term such as k1, or no",
    ):
        DescriptorConfig(("H", "C"), size=True)


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


def test_text_instead_of_a_list_of_symbols_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"species is the text 'NO'. Give a list of symbols"):
        config_for(species="NO")
