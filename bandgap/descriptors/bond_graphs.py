"""Properties and environments of the molecules of a structure, from their bonds (RDKit).

The bonds are perceived from the positions (`bond_orders`). Of each molecule RDKit computes
physico-chemical properties (conjugation, rings, donors and acceptors of hydrogen bonds, groups of
atoms) and the counts of its Morgan environments: each atom with its neighbours up to a distance of
one bond, folded into `N_ENVIRONMENTS` bins. Counts are logarithms or square roots, so that large
molecules are not far from all others. The features of a structure are means over its molecules;
those of the largest conjugated system are maxima.

References: RDKit, https://www.rdkit.org; D. Rogers and M. Hahn, J. Chem. Inf. Model. 50, 742 (2010)
(Morgan environments).
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import Block, NoFeaturesError
from bandgap.descriptors.rdkit_package import rdkit_module

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

N_ENVIRONMENTS: Final = 512
RADIUS: Final = 1  # bonds around an atom
# Names of the functions of `rdMolDescriptors` whose counts are features.
COUNTS: Final = (
    "CalcNumHeavyAtoms",
    "CalcNumHeteroatoms",
    "CalcNumRings",
    "CalcNumAromaticRings",
    "CalcNumAromaticHeterocycles",
    "CalcNumRotatableBonds",
    "CalcNumHBD",
    "CalcNumHBA",
)
# SMARTS of groups whose numbers are features.
GROUPS: Final = {
    "nitro": "[N+](=O)[O-]",
    "carbonyl": "[#6]=O",
    "nitrile": "C#N",
    "amine": "[NX3;!$(N=*);!$(NC=[O,S])]",
    "amide": "NC=O",
    "sulfur": "[#16]",
    "halogen": "[F,Cl,Br,I]",
    "triple bond": "[#6]#[#6]",
    "positive atom": "[+]",
}
OTHERS: Final = (
    "share of saturated carbon",
    "Crippen's logP",
    "polar surface per atom",
    "molar refractivity per atom",
    "Hall and Kier's alpha",
    "number of conjugated systems",
)
# Of the largest conjugated system.
CONJUGATION: Final = ("atoms", "longest path", "heteroatoms", "share of the molecule's atoms")
N_FEATURES: Final = len(COUNTS) + len(GROUPS) + len(OTHERS) + len(CONJUGATION) + N_ENVIRONMENTS


def bond_graphs(atoms: "Atoms", is_requested: bool = True) -> Floats:
    """Return the features (N_FEATURES,) of a structure.

    Raises NoFeaturesError if it contains no molecule, or if the bonds of one cannot be perceived.
    """
    from bandgap.descriptors.bond_orders import NoBondsError, molecules_of

    try:
        molecules = molecules_of(atoms)
    except NoBondsError as error:
        raise NoFeaturesError(f"has no features of bonds: {error}.") from error
    weights = np.array([count for _, count in molecules], dtype=np.float64)
    means = np.average([_properties(m) for m, _ in molecules], axis=0, weights=weights)
    largest = np.max([conjugation(m) for m, _ in molecules], axis=0)
    environments = np.average([_environments(m) for m, _ in molecules], axis=0, weights=weights)
    return np.concatenate([means, largest, environments])


def conjugation(molecule: Any) -> Floats:
    """Return the features of the largest conjugated system, in the order of `CONJUGATION`.

    The longest path is the largest number of bonds between two of its atoms, along the shortest
    path. All features but the share are logarithms of one plus the number.
    """
    systems = _conjugated_systems(molecule)
    if not systems:
        return np.zeros(len(CONJUGATION))
    largest = max(len(system) for system in systems)
    candidates = [system for system in systems if len(system) == largest]
    heteroatoms = [
        sum(molecule.GetAtomWithIdx(atom).GetAtomicNum() != 6 for atom in system)
        for system in candidates
    ]
    longest = max(_longest_path(system) for system in systems)
    logs = np.log1p([largest, longest, max(heteroatoms)])
    return np.array([*logs, largest / molecule.GetNumAtoms()])


def _conjugated_systems(molecule: Any) -> list[dict[int, list[int]]]:
    """Return each group of atoms with conjugated bonds, with the neighbours of every atom."""
    neighbours: dict[int, list[int]] = {}
    for bond in molecule.GetBonds():
        if bond.GetIsConjugated():
            i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            neighbours.setdefault(i, []).append(j)
            neighbours.setdefault(j, []).append(i)
    systems = []
    remaining = dict(neighbours)
    while remaining:
        members = _distances(neighbours, next(iter(remaining)))
        systems.append({atom: remaining.pop(atom) for atom in members})
    return systems


def _longest_path(neighbours: Mapping[int, list[int]]) -> int:
    return max(max(_distances(neighbours, atom).values()) for atom in neighbours)


def _distances(neighbours: Mapping[int, list[int]], start: int) -> dict[int, int]:
    """Return the number of bonds from an atom to every atom that bonds connect to it."""
    distances = {start: 0}
    queue = [start]
    for atom in queue:  # grows while it is visited
        for neighbour in neighbours[atom]:
            if neighbour not in distances:
                distances[neighbour] = distances[atom] + 1
                queue.append(neighbour)
    return distances


def _properties(molecule: Any) -> Floats:
    """Return the features of `COUNTS`, `GROUPS` and `OTHERS` of one molecule."""
    chem = rdkit_module()
    crippen = rdkit_module("Chem.Crippen")
    descriptors = rdkit_module("Chem.rdMolDescriptors")
    functions: list[Callable[[Any], int]] = [getattr(descriptors, name) for name in COUNTS]
    numbers = [function(molecule) for function in functions]
    numbers += [
        len(molecule.GetSubstructMatches(chem.MolFromSmarts(smarts))) for smarts in GROUPS.values()
    ]
    n_atoms = max(molecule.GetNumHeavyAtoms(), 1)
    further_properties = [
        descriptors.CalcFractionCSP3(molecule),
        crippen.MolLogP(molecule),
        descriptors.CalcTPSA(molecule) / n_atoms,
        crippen.MolMR(molecule) / n_atoms,
        descriptors.CalcHallKierAlpha(molecule),
        math.log1p(len(_conjugated_systems(molecule))),
    ]
    return np.array([*np.log1p(numbers), *further_properties], dtype=np.float64)


def _environments(molecule: Any) -> Floats:
    """Return the square roots of the counts (N_ENVIRONMENTS,) of Morgan environments."""
    generators = rdkit_module("Chem.rdFingerprintGenerator")
    generator = generators.GetMorganGenerator(radius=RADIUS, fpSize=N_ENVIRONMENTS)
    counts = np.asarray(generator.GetCountFingerprintAsNumPy(molecule), dtype=np.float64)
    return np.sqrt(counts)


BLOCK: Final = Block(
    "bonds",
    width=lambda is_requested: N_FEATURES if is_requested else 0,
    name=lambda is_requested: "bonds of molecules",
    describe=bond_graphs,
    measures_similarity=True,
)
