"""CHGNet's features against its own package, and invariances; skipped without `chgnet`."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, fcc100, molecule

from bandgap.descriptors import PRESETS, featurize, n_features
from bandgap.descriptors.potentials import chgnet, chgnet_graphs
from bandgap.structures.elements import ELEMENTS
from tests.unit.descriptors.samples import crystal, ethanol, record

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("chgnet.model.model")

CONFIG = PRESETS["chgnet"]
# Describes rock salt in a process that can reach no address; prints features and refused attempts.
WITHOUT_NETWORK = """
import sys
attempts = []
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request"):
        attempts.append(event)
        raise OSError("no network in this process")
sys.addaudithook(refuse)
if sys.argv[1:]:
    import socket
    try:
        socket.socket().connect(("127.0.0.1", 9))
    except OSError as error:
        assert "no network" in str(error)
from ase.build import bulk
from bandgap.descriptors import PRESETS, featurize
from bandgap.structures import StructureRecord
salt = StructureRecord("salt", "salt.cif", "CIF", bulk("NaCl", "rocksalt", a=5.64))
described = featurize([salt], PRESETS["chgnet"])
assert list(described.problems) == [None], described.problems
print(*described.features[0], *attempts)
"""
# Of float32 through four layers.
ROUNDING = 5e-5


def perovskite() -> Atoms:
    """Return a tilted cell of eight atoms with three elements."""
    positions = [
        [0, 0, 0],
        [0.5, 0.52, 0.5],
        [0.5, 0.5, 0.04],
        [0.5, 0, 0.5],
        [0.03, 0.5, 0.5],
        [0.25, 0.25, 0.7],
    ]
    return Atoms(
        "CsPbI3Br",
        scaled_positions=np.random.default_rng(0).permutation(positions),
        cell=[[6.3, 0, 0], [0.4, 6.1, 0], [-0.3, 0.2, 6.5]],
        pbc=True,
    )


@pytest.mark.filterwarnings("ignore")  # of pymatgen and chgnet
@pytest.mark.parametrize(
    "atoms", [bulk("NaCl", "rocksalt", a=5.64), perovskite(), crystal()], ids=str
)
def test_features_are_those_of_the_package(atoms: Atoms):
    from chgnet.model import CHGNet
    from pymatgen.io.ase import AseAtomsAdaptor

    expected = CHGNet.load(use_device="cpu", verbose=False).predict_structure(
        AseAtomsAdaptor.get_structure(atoms), task="e", return_atom_feas=True
    )["atom_fea"]
    np.testing.assert_allclose(chgnet.atom_features(atoms), expected, atol=ROUNDING)
    pooled = [expected.mean(0), expected.max(0), expected.min(0)]
    np.testing.assert_allclose(chgnet.pooled(atoms), np.concatenate(pooled), atol=ROUNDING)


@pytest.mark.filterwarnings("ignore")  # of pymatgen and chgnet
@pytest.mark.parametrize(
    "atoms",
    [bulk("Cu"), bulk("Cs", a=6.1), bulk("C") * (1, 1, 7), perovskite(), crystal()],
    ids=["one atom", "no angles", "thin cell", "perovskite", "molecules"],
)
def test_graph_is_that_of_the_package(atoms: Atoms):
    structure = chgnet._structure(atoms)
    expected = chgnet._model().graph_converter(structure).to_dict()
    graph = chgnet_graphs.graph_of(structure, chgnet_graphs.edges_of(structure)).to_dict()
    tensors = {name: value for name, value in expected.items() if isinstance(value, torch.Tensor)}
    assert len(tensors) == 8
    for name, value in tensors.items():
        assert graph[name].dtype == value.dtype
        torch.testing.assert_close(graph[name].reshape(value.shape), value, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore")  # of pymatgen and chgnet
@pytest.mark.parametrize("atoms", [bulk("NaCl", "rocksalt", a=5.64), perovskite()], ids=str)
def test_last_layer_has_the_mean_that_the_package_returns_for_the_crystal(atoms: Atoms):
    from chgnet.model import CHGNet
    from pymatgen.io.ase import AseAtomsAdaptor

    expected = CHGNet.load(use_device="cpu", verbose=False).predict_structure(
        AseAtomsAdaptor.get_structure(atoms), task="e", return_crystal_feas=True
    )["crystal_fea"]
    earlier, last = chgnet.layers(atoms)
    pooled = chgnet.pooled_of_two_layers(atoms)
    np.testing.assert_allclose(last.mean(0), expected / len(atoms), atol=ROUNDING)
    np.testing.assert_array_equal(
        pooled,
        np.concatenate([f(x, 0) for x in (earlier, last) for f in (np.mean, np.max, np.min)]),
    )


def test_elements_are_those_whose_embedding_was_trained():
    """The optimiser, stored with the weights, has no gradients for the embedding of the others."""
    from importlib.resources import files

    import torch

    path = files("chgnet") / "pretrained" / chgnet.WEIGHTS / "chgnet_0.3.0_e29f68s314m37.pth.tar"
    stored = torch.load(str(path), map_location="cpu", weights_only=True)
    squares = [s["exp_avg_sq"] for s in stored["optimizer"]["state"].values()]
    (embedding,) = (square for square in squares if square.shape == (94, 64))
    trained = [ELEMENTS[k] for k in np.flatnonzero(embedding.sum(1).numpy() > 0)]
    assert list(chgnet.POTENTIAL.elements) == trained


def test_molecule_has_the_same_features_in_any_large_box():
    expected = chgnet.pooled(ethanol())
    boxed = ethanol()
    boxed.set_cell(np.diag([17.0, 23.0, 31.0]))
    boxed.pbc = True
    np.testing.assert_allclose(chgnet.pooled(boxed), expected, atol=ROUNDING)


@pytest.mark.parametrize("pbc", [(True, True, False), (True, False, False), (False, False, False)])
def test_open_axes_need_no_vacuum_and_accept_any(pbc: tuple[bool, bool, bool]):
    slab = fcc100("Al", (1, 2, 3), vacuum=None)
    thin = slab.copy()
    wide = slab.copy()
    wide.cell = thin.cell.complete()
    wide.cell[[not axis for axis in pbc]] *= 20.0
    thin.pbc = pbc
    wide.pbc = True
    np.testing.assert_allclose(chgnet.pooled(thin), chgnet.pooled(wide), atol=ROUNDING)


@pytest.mark.parametrize("make", [ethanol, crystal, perovskite])
def test_features_do_not_depend_on_frame_order_or_supercell_and_atoms_are_not_changed(make):
    atoms = make()
    before = atoms.copy()
    features = chgnet.pooled(atoms)
    assert features.shape == (chgnet.POTENTIAL.n_features,) and np.isfinite(features).all()
    assert atoms == before
    turned = atoms.copy()
    turned.rotate(37.0, (1.0, 2.0, -1.0), rotate_cell=True)
    turned.translate((3.0, -40.0, 0.2))
    order = np.random.default_rng(0).permutation(len(atoms))
    equivalent = [turned, atoms[order]] + ([atoms.repeat((1, 2, 1))] if atoms.pbc.any() else [])
    for other in equivalent:
        np.testing.assert_allclose(chgnet.pooled(other), features, atol=ROUNDING)


def test_structures_that_it_cannot_describe_are_refused_with_the_reason():
    atom = Atoms("H", positions=np.zeros((1, 3)))
    scattered = molecule("H2O") + Atoms("He2", positions=[[0, 0, 30.0], [0, 0, 60.0]])
    crowded = bulk("C", "diamond", a=3.57, cubic=True).repeat(7)
    described = featurize([record(a) for a in (atom, ethanol(), scattered, crowded)], CONFIG)
    reasons = [problem and problem.text for problem in described.problems]
    assert reasons == [
        "has an atom without a neighbour within 6 angstroms, which CHGNet cannot describe.",
        None,
        "has 2 atoms without a neighbour within 6 angstroms, which CHGNet cannot describe.",
        "has 2,744 atoms with about 437,000 pairs within 6 angstroms, too many for CHGNet; "
        "accepted: 200,000, about 2,000 atoms. Check the cell, or use the primitive one.",
    ]
    assert (
        np.isfinite(described.features[1]).all() and np.isnan(described.features[[0, 2, 3]]).all()
    )


def test_estimated_number_of_pairs_is_near_the_count():
    atoms = bulk("C", "diamond", a=3.57, cubic=True)
    (centres, *_) = chgnet._structure(atoms).get_neighbor_list(r=chgnet.CUTOFF_ANGSTROM)
    assert chgnet._n_pairs(atoms) == pytest.approx(len(centres), rel=0.05)


def features_without_network(home: object, *words: str) -> list[str]:
    """Return features of rock salt and attempts to connect, from a process without network."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_weights_are_in_the_package_and_nothing_is_downloaded(tmp_path):
    """The home folder is new, so that no earlier download is in it."""
    expected = featurize([record(bulk("NaCl", "rocksalt", a=5.64))], CONFIG).features[0]
    features = np.array(features_without_network(tmp_path), dtype=float)
    np.testing.assert_allclose(features, expected, atol=ROUNDING)


def test_process_without_network_reports_an_attempt_to_connect(tmp_path):
    """Without this, the test above could not fail."""
    printed = features_without_network(tmp_path, "connect")
    assert printed[n_features(CONFIG) :] == ["socket.connect"]
