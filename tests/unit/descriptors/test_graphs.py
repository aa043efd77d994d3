"""Graphs of structures against ASE's neighbours, and graph networks; skipped without `graph`."""

import dataclasses
import sys
import warnings

import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.neighborlist import neighbor_list

from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.block_settings import GraphBody
from bandgap.descriptors.graphs import TIE_ANGSTROM, graph_of
from bandgap.foundation.errors import ConfigError
from bandgap.networks.graph_config import GraphConfig
from tests.unit.descriptors.samples import crystal, ethanol, record

CONFIG = GraphConfig(("H", "C", "N", "O"), cutoff_angstrom=3.5, width=4, hidden=6)


def test_missing_package_is_reported_before_any_work(monkeypatch):
    for name in [
        name
        for name in sys.modules
        if name.startswith(("torch_geometric", "bandgap.networks.megnet"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    descriptor = DescriptorConfig(graph=GraphBody(CONFIG, "0"))
    with pytest.raises(
        ConfigError, match=r"torch_geometric, which is not installed.*'\.\[graph\]'"
    ):
        featurize([record(ethanol())], descriptor)


@pytest.fixture(scope="module")
def body() -> GraphBody:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torch_geometric.nn")
    from bandgap.networks.megnet import new_megnet

    return GraphBody.of(CONFIG, new_megnet(CONFIG, seed=0).state_dict())


@pytest.mark.parametrize(
    "atoms", [ethanol(), crystal(), bulk("C", "diamond", a=3.57), crystal().repeat(2)], ids=str
)
@pytest.mark.parametrize("max_neighbours", [3, 12, 10_000])
def test_graph_contains_the_nearest_neighbours_that_ase_returns(body, atoms, max_neighbours):
    config = dataclasses.replace(CONFIG, max_neighbours=max_neighbours)
    graph = graph_of(atoms, config)
    ends = graph.bonds.numpy()[1]
    distances = graph.distances.numpy()
    centre, distance = neighbor_list("id", atoms, config.cutoff_angstrom)
    for k in range(len(atoms)):
        expected = np.sort(distance[centre == k])
        last = expected[max_neighbours - 1] if len(expected) >= max_neighbours else np.inf
        np.testing.assert_allclose(
            np.sort(distances[ends == k]), expected[expected <= last + TIE_ANGSTROM], atol=1e-5
        )


def test_neighbours_at_equal_distances_are_included_together(body):
    graph = graph_of(bulk("C", "diamond", a=3.57), dataclasses.replace(CONFIG, max_neighbours=5))
    # The 4 nearest, and all 12 next nearest.
    assert np.bincount(graph.bonds.numpy()[1]).tolist() == [16, 16]


def test_network_without_weights_says_where_they_are(body):
    without_weights = DescriptorConfig(graph=dataclasses.replace(body, weights={}))
    with pytest.raises(
        ConfigError, match="whose weights are not here. Take it from the folder of the source model"
    ):
        featurize([record(ethanol())], without_weights)


def test_element_that_the_network_does_not_know_is_the_problem_of_its_structure(body):
    described = featurize(
        [record(molecule("SiH4")), record(ethanol())], DescriptorConfig(graph=body)
    )
    assert described.problems[0] is not None and described.problems[0].text.startswith(
        "contains Si, which the descriptor was"
    )
    assert described.problems[1] is None
