"""The message on labelled structures that a run left out for their elements."""

import dataclasses

import pytest

from bandgap.descriptors import PRESETS, DescriptorConfig
from bandgap.descriptors.block_settings import GraphBody
from bandgap.descriptors.growing import elements_beyond, grown_descriptor
from bandgap.foundation.config import to_dict
from bandgap.networks.graph_config import GraphConfig
from bandgap.sources.cards import left_out_sentence

GRAPH = DescriptorConfig(graph=GraphBody(GraphConfig(("H", "C", "O")), "0" * 16))
MBTR = PRESETS["thesis-1260"]
WITH_CHGNET = dataclasses.replace(MBTR, potential="chgnet")
NEW_ELEMENTS = (
    "such as btl_pcp_pe or feature_gp, or start from a source that was trained for their elements"
)
FIXED = (
    "so that no method that transfers learns them. To learn from them too, choose a method "
    "without transfer, such as gaussian_process, which takes a descriptor for all elements, or "
    "train a source on structures with these elements: `bandgap train-source --species` (on the "
    "page Source models)."
)


def message(descriptor: DescriptorConfig | None, *symbols: str) -> str:
    manifest = {"left_out": [{"id": "a", "elements": list(symbols)}], "data": {"n_labelled": 9}}
    return left_out_sentence(
        manifest | ({} if descriptor is None else {"descriptor": to_dict(descriptor)})
    )


@pytest.mark.parametrize(
    ("descriptor", "symbols", "lacking", "fixed"),
    [
        (GRAPH, ("H", "Si", "S"), {"Si", "S"}, {"Si", "S"}),
        (MBTR, ("H", "Pb"), {"Pb"}, set()),
        (PRESETS["any-elements"], ("Pb", "Og"), {"Og"}, {"Og"}),
        (WITH_CHGNET, ("Pb", "Og"), {"Pb", "Og"}, {"Og"}),
        (GRAPH, ("C",), set(), set()),
    ],
    ids=["graph", "MBTR", "any elements", "MBTR with CHGNet", "none"],
)
def test_elements_beyond_are_those_that_a_descriptor_lacks_and_those_that_it_cannot_have(
    descriptor: DescriptorConfig, symbols: tuple[str, ...], lacking: set[str], fixed: set[str]
) -> None:
    assert elements_beyond(to_dict(descriptor), symbols) == (lacking, fixed)
    assert set(symbols) - set(grown_descriptor(descriptor, symbols).elements) == fixed


@pytest.mark.parametrize("descriptor", [MBTR, None], ids=["MBTR", "manifest without a descriptor"])
def test_source_that_grows_recommends_methods_that_learn_new_elements(
    descriptor: DescriptorConfig | None,
) -> None:
    text = message(descriptor, "Pb")
    assert NEW_ELEMENTS in text
    assert "cannot be grown" not in text


@pytest.mark.parametrize(
    ("descriptor", "symbols", "fixed"),
    [
        (GRAPH, ("Si", "S"), "S, Si"),
        (PRESETS["chgnet"], ("Og",), "Og"),
        (WITH_CHGNET, ("Pb", "Og"), "Og"),
    ],
    ids=["graph", "CHGNet", "one of two"],
)
def test_source_that_cannot_grow_recommends_no_method_that_learns_new_elements(
    descriptor: DescriptorConfig, symbols: tuple[str, ...], fixed: str
) -> None:
    text = message(descriptor, *symbols)
    assert text.endswith(f"Its descriptor cannot be grown by {fixed}, {FIXED}")
    assert NEW_ELEMENTS not in text
