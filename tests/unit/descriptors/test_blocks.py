"""Properties of every block after the MBTR terms, for whoever adds one."""

import dataclasses

import numpy as np
import pytest
from ase.build import molecule

from bandgap.descriptors import (
    DescriptorConfig,
    config_for,
    feature_terms,
    n_features,
    similarity_features,
)
from bandgap.descriptors.block_settings import GraphBody, Soap
from bandgap.descriptors.blocks import Block
from bandgap.descriptors.config import BLOCKS
from bandgap.descriptors.mbtr import describe
from bandgap.foundation.config import from_dict, to_dict
from bandgap.networks.graph_config import GraphConfig

PLAIN = config_for(species=["H", "C", "O"])
# A value of the setting of every block that asks for it.
VALUES = {
    "composition": True,
    "neighbours": True,
    "soap": Soap(radial=3, angular=2, weights=("electronegativity",)),
    "potential": "chgnet",
    "second_potential": "sevennet-mf-0",
    "bonds": True,
    "fractions": True,
    "size": True,
    "levels": "GFN1-xTB",
}
# The package that a block needs.
PACKAGES = {
    "potential": "chgnet",
    "second_potential": "sevenn",
    "graph": "torch_geometric",
    "levels": "tblite",
}


def value_of(setting: str):
    """Return a value of this setting that asks for its block."""
    if setting != "graph":
        assert setting in VALUES, (
            f"no value of the setting {setting!r} is known. Add one that asks for the block to "
            "VALUES of this file, and its package, if it needs one, to PACKAGES."
        )
        return VALUES[setting]
    from bandgap.networks.megnet import new_megnet

    shape = GraphConfig(PLAIN.species)
    return GraphBody.of(shape, new_megnet(shape, seed=0).state_dict())


def test_stored_descriptor_without_the_settings_of_blocks_has_none():
    stored = to_dict(PLAIN)
    for setting in BLOCKS:
        stored.pop(setting, None)
    assert from_dict(DescriptorConfig, stored) == PLAIN
    assert PLAIN.blocks == ()


def test_fingerprint_of_a_descriptor_without_the_block_has_no_trace_of_its_setting():
    stored = set(to_dict(PLAIN)) & set(BLOCKS)
    new = stored - {"composition", "neighbours", "soap", "graph", "potential", "size", "levels"}
    assert not new, (
        f"the settings {', '.join(new)} are stored where they have their default, which changes "
        "the fingerprints of stored descriptors. Give them "
        "field(default=..., metadata=STORED_UNLESS_DEFAULT) in DescriptorConfig."
    )


# Own features are no function of the atoms.
COMPUTED = [setting for setting in BLOCKS if setting != "user_features"]


@pytest.mark.parametrize("block", [BLOCKS[setting] for setting in COMPUTED], ids=COMPUTED)
def test_block_adds_its_features_after_those_of_the_terms(block: Block):
    if block.setting in PACKAGES:
        pytest.importorskip(PACKAGES[block.setting])
    value = value_of(block.setting)
    config = dataclasses.replace(PLAIN, **{block.setting: value})
    atoms = molecule("CH3OH")
    plain = describe(atoms, PLAIN)
    vector = describe(atoms, config)
    assert config.blocks == ((block, value),)
    assert len(vector) == n_features(config) == n_features(PLAIN) + block.width(value)
    np.testing.assert_array_equal(vector[: len(plain)], plain)
    assert np.isfinite(vector).all()
    assert feature_terms(config)[-1] == slice(len(plain), len(vector))
    n_similarity = len(vector) if block.measures_similarity else len(plain)
    assert similarity_features(vector[None], config).shape[1] == n_similarity


def test_blocks_that_measure_similarity_precede_the_others():
    blocks = list(BLOCKS.values())
    names = [block.setting for block in blocks]
    n_similarity = sum(block.measures_similarity for block in blocks)
    late = [block.setting for block in blocks[n_similarity:] if block.measures_similarity]
    assert not late, (
        f"the blocks {', '.join(late)} measure similarity and come after one that does not. The "
        f"order of BLOCKS in bandgap/descriptors/config.py is {', '.join(names)}; move them up."
    )
