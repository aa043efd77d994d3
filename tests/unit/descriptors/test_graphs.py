"""Graphs of structures against ASE's neighbours, and graph networks as descriptors; skipped without `graph`."""

import dataclasses
import sys
import warnings

import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.neighborlist import neighbor_list

from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.graphs import TIE_ANGSTROM, GraphBody, graph_of
from bandgap.foundation.errors import ConfigError
from bandgap.networks.graph_config import GraphConfig
from tests.unit.descriptors.samples import crystal, ethanol, record

CONFIG = GraphConfig(("H", "C", "N", "O"), cutoff_angstrom=3.5, width=4, hidden=6)


def test_missing_package_is_said_before_any_work(monkeypatch):
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
@pytest.mark.parametrize("most", [3, 12, 10_000])
def test_graph_holds_the_nearest_neighbours_that_ase_finds(body, atoms, most):
    config = dataclasses.replace(CONFIG, max_neighbours=most)
    graph = graph_of(atoms, config)
    ends, distances = graph.bonds.numpy()[1], graph.distances.numpy()
    centre, distance = neighbor_list("id", atoms, config.cutoff_angstrom)
    for k in range(len(atoms)):
        known = np.sort(distance[centre == k])
        last = known[most - 1] if len(known) >= most else np.inf
        np.testing.assert_allclose(
            np.sort(distances[ends == k]), known[known <= last + TIE_ANGSTROM], atol=1e-5
        )


def test_equal_neighbours_are_taken_together(body):
    graph = graph_of(bulk("C", "diamond", a=3.57), dataclasses.replace(CONFIG, max_neighbours=5))
    assert np.bincount(graph.bonds.numpy()[1]).tolist() == [
        16,
        16,
    ]  # 4 nearest, and all 12 next nearest


def test_network_without_its_weights_says_where_they_are(body):
    alone = DescriptorConfig(graph=dataclasses.replace(body, weights={}))
    with pytest.raises(
        ConfigError, match="whose weights are not here. Take it from the folder of the source model"
    ):
        featurize([record(ethanol())], alone)


def test_element_that_the_network_never_saw_is_the_problem_of_its_structure(body):
    found = featurize([record(molecule("SiH4")), record(ethanol())], DescriptorConfig(graph=body))
    assert found.problems[0] is not None and found.problems[0].text.startswith(
        "contains Si, which the descriptor was"
    )
    assert found.problems[1] is None
