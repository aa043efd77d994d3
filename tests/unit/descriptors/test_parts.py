"""What holds for every part behind the terms of MBTR, whoever adds one."""

import dataclasses

import numpy as np
import pytest
from ase.build import molecule

from bandgap.descriptors import (
    MBTRConfig,
    config_for,
    feature_terms,
    n_features,
    similarity_features,
)
from bandgap.descriptors.config import PARTS, parts_of
from bandgap.descriptors.graphs import GraphBody
from bandgap.descriptors.mbtr import describe
from bandgap.descriptors.parts import Part
from bandgap.descriptors.soap import Soap
from bandgap.foundation.config import from_dict, to_dict
from bandgap.networks.graph_config import GraphConfig

PLAIN = config_for(species=["H", "C", "O"])
ASKED = {  # a value of every part's setting that asks for it
    "composition": True,
    "neighbours": True,
    "soap": Soap(radial=3, angular=2, weights=("electronegativity",)),
    "potential": "chgnet",
    "size": True,
    "levels": "GFN1-xTB",
}
NEEDS = {
    "potential": "chgnet",
    "graph": "torch_geometric",
    "levels": "tblite",
}  # the package without which there is no such part


def asked(setting: str):
    """Return a value of this setting that asks for its part."""
    if setting != "graph":
        return ASKED[setting]
    from bandgap.networks.megnet import new_megnet

    shape = GraphConfig(PLAIN.species)
    return GraphBody.of(shape, new_megnet(shape, seed=0).state_dict())


EACH = pytest.mark.parametrize("part", PARTS, ids=[part.setting for part in PARTS])


def test_descriptor_that_was_stored_before_a_part_existed_has_none():
    stored = to_dict(PLAIN)
    for part in PARTS:
        stored.pop(part.setting, None)
    assert from_dict(MBTRConfig, stored) == PLAIN
    assert parts_of(PLAIN) == []


@EACH
def test_part_adds_its_features_behind_those_of_the_terms(part: Part):
    if part.setting in NEEDS:
        pytest.importorskip(NEEDS[part.setting])
    value = asked(part.setting)
    config = dataclasses.replace(PLAIN, **{part.setting: value})
    atoms = molecule("CH3OH")
    plain, vector = describe(atoms, PLAIN), describe(atoms, config)
    assert parts_of(config) == [(part, value)]
    assert len(vector) == n_features(config) == n_features(PLAIN) + part.width(value)
    np.testing.assert_array_equal(vector[: len(plain)], plain)
    assert np.isfinite(vector).all()
    assert feature_terms(config)[-1] == slice(len(plain), len(vector))
    assert similarity_features(vector[None], config).shape[1] == (
        len(vector) if part.alike else len(plain)
    )


def test_parts_that_say_how_alike_structures_are_stand_before_the_others():
    assert sorted(PARTS, key=lambda part: not part.alike) == list(PARTS)
