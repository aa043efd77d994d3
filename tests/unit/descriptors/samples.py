"""Structures and settings that the tests of the descriptors share."""

import ase.build
import numpy as np
import pytest
from ase import Atoms

from bandgap.descriptors import DescriptorConfig, Term
from bandgap.structures import StructureRecord

K1 = Term(function="atomic_number", minimum=0.0, maximum=10.0, n=11, sigma=0.7)
K2 = Term(
    function="inverse_distance", minimum=0.1, maximum=1.2, n=12, sigma=0.05,
    weighting="exp", cutoff_angstrom=4.0, threshold=0.01,
)  # fmt: skip
K2_DISTANCE = Term(
    function="distance",
    minimum=0.5,
    maximum=5.0,
    n=12,
    sigma=0.3,
    weighting="inverse_square",
    cutoff_angstrom=4.5,
)
K3 = Term(
    function="cosine",
    minimum=-1.0,
    maximum=1.0,
    n=8,
    sigma=0.1,
    weighting="exp",
    cutoff_angstrom=2.5,
    threshold=0.05,
)
K3_ANGLE = Term(
    function="angle",
    minimum=0.0,
    maximum=180.0,
    n=8,
    sigma=15.0,
    weighting="smooth_cutoff",
    cutoff_angstrom=2.2,
)
SPECIES = ("H", "C", "N", "O")

CONFIGS = {
    "k1 k2 per heavy atom": DescriptorConfig(SPECIES, K1, K2),
    "k1 k2 per atom": DescriptorConfig(SPECIES, K1, K2, normalisation="per_atom"),
    "k1 k2 l2 per term": DescriptorConfig(SPECIES, K1, K2, normalisation="l2_per_term"),
    "k1 k2 unscaled": DescriptorConfig(SPECIES, K1, K2, normalisation="none"),
    "distance, inverse square": DescriptorConfig(SPECIES, K1, K2_DISTANCE),
    "square roots and size": DescriptorConfig(SPECIES, K1, K2, roots=True, size=True),
    "k3 cosine": DescriptorConfig(SPECIES, K1, K2, K3),
    "k3 angle": DescriptorConfig(SPECIES, K1, K2, K3_ANGLE, normalisation="per_atom"),
}


def ethanol() -> Atoms:
    """Return an isolated molecule of 9 atoms."""
    return ase.build.molecule("CH3CH2OH")


def crystal() -> Atoms:
    """Return a triclinic crystal of acetamide and water, without distances at the cutoffs above."""
    acetamide = ase.build.molecule("CH3CONH2")
    water = ase.build.molecule("H2O")
    water.rotate(40, (1, 2, 3))
    water.translate((0.4, 3.3, 1.9))
    atoms = acetamide + water
    atoms.set_cell([[5.7, 0.0, 0.0], [0.7, 6.3, 0.0], [-0.4, 0.9, 4.6]])
    atoms.pbc = True
    return atoms


def record(atoms: Atoms | None, name: str = "structure") -> StructureRecord:
    """Return a record as the readers make it."""
    return StructureRecord(id=name, file=f"{name}.xyz", format="extXYZ", atoms=atoms)


def random_molecules(n: int) -> list[Atoms]:
    """Return `n` different hydrogen-bonded pairs of molecules from a fixed seed."""
    generator = np.random.default_rng(0)
    molecules = []
    for _ in range(n):
        second = ase.build.molecule("H2O")
        second.translate(np.array([0.0, 0.0, 2.5]) + generator.normal(scale=0.1, size=3))
        molecules.append(ethanol() + second)
    return molecules


def rotated(atoms: Atoms) -> Atoms:
    turned = atoms.copy()
    turned.rotate(37, (1, 2, -1), rotate_cell=True)
    return turned


def shuffled(atoms: Atoms) -> Atoms:
    return atoms[np.random.default_rng(0).permutation(len(atoms))]


def other_cell(atoms: Atoms) -> Atoms:
    """Return the crystal in a skewed cell with another origin, and atoms outside the cell."""
    other = atoms.copy()
    other.positions += (0.3, -0.8, 11.0)
    other.set_cell(np.array([[1, 0, 0], [1, 1, 0], [-1, 2, 1]]) @ atoms.cell.array)
    return other


# A crystal may be written in any of these ways, and must have the same features.
WRITTEN_OTHERWISE = pytest.mark.parametrize(
    "change",
    [lambda atoms: atoms.repeat((2, 1, 2)), rotated, shuffled, other_cell],
    ids=["supercell", "rotation", "order of atoms", "choice of cell"],
)
