"""Stored descriptors: settings in the manifest, weights of a graph network in a file."""

import json
import pickle

import numpy as np
import pytest

from bandgap.descriptors import DescriptorConfig, featurize, n_features
from bandgap.descriptors.block_settings import GraphBody
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.errors import ArtifactError
from bandgap.sources.stored_descriptor import GRAPH, load_descriptor, save_descriptor
from tests.unit.descriptors import test_graphs
from tests.unit.descriptors.samples import crystal, ethanol, record

CONFIG = test_graphs.CONFIG
body = test_graphs.body


def test_weights_are_a_separate_file_and_give_the_same_vectors(body, tmp_path):
    descriptor = DescriptorConfig(graph=body)
    entry = json.loads(json.dumps(save_descriptor(tmp_path, descriptor)))
    assert entry["graph"]["digest"] == body.digest and "weights" not in entry["graph"]
    again = load_descriptor(tmp_path, entry)
    assert again == descriptor and fingerprint(again) == fingerprint(descriptor)
    records = [record(ethanol()), record(crystal(), "crystal")]
    for stored in (again, pickle.loads(pickle.dumps(descriptor))):
        described = featurize(records, stored)
        assert described.features.shape == (2, n_features(descriptor))
        assert np.isfinite(described.features).all()
        np.testing.assert_array_equal(described.features, featurize(records, descriptor).features)


def test_weights_of_another_network_are_refused(body, tmp_path):
    from bandgap.networks.megnet import new_megnet

    entry = save_descriptor(tmp_path, DescriptorConfig(graph=body))
    save_descriptor(
        tmp_path,
        DescriptorConfig(graph=GraphBody.of(CONFIG, new_megnet(CONFIG, seed=1).state_dict())),
    )
    with pytest.raises(
        ArtifactError,
        match="the weights of the graph network are not those that the manifest names",
    ):
        load_descriptor(tmp_path, entry)
    (tmp_path / GRAPH).unlink()
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_descriptor(tmp_path, entry)


def test_descriptor_without_a_network_has_no_file(tmp_path):
    plain = DescriptorConfig(potential="chgnet")
    (tmp_path / GRAPH).write_bytes(b"of an earlier model")
    assert save_descriptor(tmp_path, plain) == to_dict(plain)
    assert not (tmp_path / GRAPH).exists()
    assert load_descriptor(tmp_path, to_dict(plain)) == plain


def test_setting_that_is_new_does_not_change_the_fingerprint_of_a_stored_descriptor(tmp_path):
    """With another fingerprint, fits on all labels would be refused for runs stored before."""
    assert set(to_dict(DescriptorConfig(composition=True))) == {
        *("species", "k1", "k2", "k3", "normalisation", "roots", "size", "neutral", "levels"),
        *("composition", "neighbours", "soap", "potential", "graph"),
    }
    both = DescriptorConfig(potential="chgnet-two-layers", second_potential="sevennet-mf-0")
    entry = json.loads(json.dumps(save_descriptor(tmp_path, both)))
    assert load_descriptor(tmp_path, entry) == both
    assert fingerprint(both) != fingerprint(DescriptorConfig(potential="chgnet-two-layers"))
