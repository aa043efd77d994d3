"""MEGNet's blocks against loops, and invariances of the readout; needs the extra `graph`."""

import warnings

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.networks.graph_config import GraphConfig

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torch_geometric.nn")

from bandgap.descriptors.graphs import graph_of
from bandgap.networks.megnet import Graphs, Megnet, gaussians, megnet_of, new_megnet

CONFIG = GraphConfig(
    ("H", "C", "O", "Si"), cutoff_angstrom=3.0, centres=9, embedding=3, hidden=6, width=4, blocks=2
)
ROUNDING = 2e-6


def crystal() -> Atoms:
    """Return a skewed crystal of methanol."""
    atoms = molecule("CH3OH")
    atoms.set_cell([[4.1, 0.0, 0.0], [0.6, 4.4, 0.0], [-0.3, 0.5, 4.0]])
    atoms.pbc = True
    return atoms


def read(network: Megnet, *structures: Atoms) -> np.ndarray:
    """Return the readouts of structures in one batch."""
    with torch.no_grad():
        return network(Graphs.joined([graph_of(atoms, CONFIG) for atoms in structures])).numpy()


def softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.log1p(torch.exp(x)) - torch.log(torch.tensor(2.0))


def through(layers: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Evaluate dense layers from their weights."""
    for layer in layers:
        if isinstance(layer, torch.nn.Linear):
            x = softplus(layer.weight @ x + layer.bias)
    return x


def block_in_loops(block, atoms, bonds, state, graph: Graphs):
    """Equations 1 to 5 of the paper for one structure, atom by atom and bond by bond."""
    before_atoms, before_bonds, before_state = block.before
    a = [
        through(before_atoms, x) if isinstance(before_atoms, torch.nn.Sequential) else x
        for x in atoms
    ]
    b = [
        through(before_bonds, x) if isinstance(before_bonds, torch.nn.Sequential) else x
        for x in bonds
    ]
    s = through(before_state, state) if isinstance(before_state, torch.nn.Sequential) else state
    ends = graph.bonds.T.tolist()
    new_bonds = [
        through(block.layer.edge_model.layers, torch.cat([a[i], a[j], e, s]))
        for (i, j), e in zip(ends, b, strict=True)
    ]
    new_atoms = []
    for k, atom in enumerate(a):
        of_atom = [bond for (_, j), bond in zip(ends, new_bonds, strict=True) if j == k]
        mean = torch.stack(of_atom).mean(0) if of_atom else torch.zeros_like(atom)
        new_atoms.append(through(block.layer.node_model.layers, torch.cat([atom, mean, s])))
    means = [torch.stack(new_atoms).mean(0), torch.stack(new_bonds).mean(0)]
    new_state = through(block.layer.global_model.layers, torch.cat([s, *means]))
    added = (
        [x + y for x, y in zip(old, new, strict=True)]
        for old, new in ((atoms, new_atoms), (bonds, new_bonds))
    )
    return (*added, state + new_state)


def test_blocks_are_those_of_the_paper():
    network = new_megnet(CONFIG, seed=1)
    graph = graph_of(crystal(), CONFIG)
    with torch.no_grad():
        atoms = network.atoms(network.embedding(graph.kinds))
        bonds = network.bonds(gaussians(graph.distances, CONFIG))
        state = network.state(torch.zeros(1, 1))
        looped = (list(atoms), list(bonds), state[0])
        for block in network.blocks:
            atoms, bonds, state = block(atoms, bonds, state, graph)
            looped = block_in_loops(block, *looped, graph)
    for values, expected in (
        (atoms, torch.stack(looped[0])),
        (bonds, torch.stack(looped[1])),
        (state[0], looped[2]),
    ):
        torch.testing.assert_close(values, expected, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        read(network, crystal())[0, -CONFIG.width :], looped[2], atol=ROUNDING
    )


def test_gaussians_are_one_at_their_centre_and_fall_with_the_distance():
    values = gaussians(torch.tensor([0.0, 3.0 / 8 * 1.5]), CONFIG)
    assert values.shape == (2, 9)
    assert float(values[0, 0]) == float(values[1].max() / values[1].max()) == 1.0
    assert float(values[1, 0]) == pytest.approx(np.exp(-0.5))


def test_structures_in_a_batch_have_the_readouts_of_single_structures():
    network = new_megnet(CONFIG, seed=0)
    structures = [crystal(), molecule("C2H2"), Atoms("H", positions=np.zeros((1, 3))), bulk("Si")]
    batch = read(network, *structures)
    assert batch.shape == (4, CONFIG.n_features) and np.isfinite(batch).all()
    np.testing.assert_allclose(
        batch, np.concatenate([read(network, s) for s in structures]), atol=ROUNDING
    )
    assert np.abs(batch[0] - batch[1]).max() > 1e-3


@pytest.mark.parametrize(
    "make",
    [crystal, lambda: bulk("Si"), lambda: molecule("CH3OH")],
    ids=["skewed", "Si", "molecule"],
)
def test_readout_does_not_depend_on_frame_order_or_supercell(make):
    network = new_megnet(CONFIG, seed=0)
    atoms = make()
    turned = atoms.copy()
    turned.rotate(37.0, (1.0, 2.0, -1.0), rotate_cell=True)
    turned.translate((3.0, -40.0, 0.2))
    equivalent = [turned, atoms[np.random.default_rng(0).permutation(len(atoms))]]
    equivalent += [atoms.repeat((2, 1, 3))] if atoms.pbc.any() else []
    for other in equivalent:
        np.testing.assert_allclose(read(network, other), read(network, atoms), atol=10 * ROUNDING)


def test_weights_depend_on_the_seed_and_the_generator_of_torch_is_not_changed():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (new_megnet(CONFIG, seed=seed).state_dict() for seed in (3, 3, 4))
    again_by_weights = megnet_of(CONFIG, first).state_dict()
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(torch.equal(first[name], again_by_weights[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
