"""SevenNet's features against its own package, and invariances; skipped without `sevenn`."""

import warnings

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk

from bandgap.descriptors import PRESETS, featurize
from bandgap.descriptors.blocks import NoFeaturesError
from bandgap.descriptors.potentials import sevennet
from bandgap.structures.elements import ELEMENTS
from tests.unit.descriptors.samples import crystal, ethanol, record

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("sevenn.checkpoint")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages that SevenNet imports

# Of float32 through five layers.
ROUNDING = 2e-4


@pytest.mark.parametrize("atoms", [bulk("NaCl", "rocksalt", a=5.64), crystal(), ethanol()], ids=str)
def test_features_are_those_from_which_the_package_computes_the_energy(atoms: Atoms):
    from sevenn.calculator import SevenNetCalculator

    calculator = SevenNetCalculator("7net-mf-0", modal="PBE", device="cpu")
    inputs = []
    calculator.model._modules["reduce_input_to_hidden"].register_forward_pre_hook(
        lambda module, arguments: inputs.append(arguments[0]["x"].detach().numpy())
    )
    calculator.calculate(atoms, ["energy"])
    np.testing.assert_allclose(sevennet.atom_features(atoms), inputs[0], atol=ROUNDING)
    pooled = np.concatenate([inputs[0].mean(0), inputs[0].max(0), inputs[0].min(0)])
    np.testing.assert_allclose(sevennet.pooled(atoms), pooled, atol=ROUNDING)


def test_features_do_not_change_in_a_supercell_when_rotated_and_with_the_order_of_atoms():
    atoms = crystal()
    expected = sevennet.pooled(atoms)
    order = np.random.default_rng(0).permutation(len(atoms))
    rotated = atoms.copy()
    rotated.rotate(40.0, (1.0, 2.0, 3.0), rotate_cell=True)
    for same in (atoms[order], atoms.repeat((2, 1, 1)), rotated):
        np.testing.assert_allclose(sevennet.pooled(same), expected, atol=ROUNDING)


def test_elements_are_those_of_the_network():
    numbers = sevennet._model().type_map
    assert set(sevennet.POTENTIAL.elements) == {ELEMENTS[number - 1] for number in numbers}


def test_atom_without_a_neighbour_is_refused():
    alone = Atoms("Ar", [[0.0, 0.0, 0.0]])
    with pytest.raises(NoFeaturesError, match="has 0 pairs of atoms within 5 angstroms"):
        sevennet.atom_features(alone)
    described = featurize([record(alone), record(ethanol())], PRESETS["sevennet-mf-0"])
    assert [problem is None for problem in described.problems] == [False, True]
