"""Perceive the bond orders and charges of a molecule, from which atoms are bonded.

RDKit's own perception (`rdDetermineBonds`) is not used: its result depends on the order of the
atoms, and it gives other structures for many nitro groups, sulfoxides and thioketones. Here the
atoms are first put in RDKit's canonical order. Then an integer program finds the extra bond orders:

    maximise  sum_e w_e x_e   subject to   sum_{e at i} x_e <= free_i,   0 <= x_e <= 2

Here `free_i` is the number of bonds that atom i lacks, counted from its neighbours. An atom that
can have one more bond with a positive charge, such as nitrogen with three neighbours, has further
variables with small weights, so that they are used only for atoms that lack a bond otherwise.

Charges are not in structure files. That of the whole molecule is counted from its atoms
(`structures.fragments.formal_charge`), and decides the charge of carbon atoms that lack a bond.
"""

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bandgap.descriptors.rdkit_package import rdkit_module
from bandgap.structures.bonds import BOND
from bandgap.structures.fragments import Fragment, formal_charge, fragments

if TYPE_CHECKING:
    from ase import Atoms

H, B, C, N, O = 1, 5, 6, 7, 8  # noqa: E741 - element symbols
HALOGENS: Final = (9, 17, 35, 53)
CARBON_GROUP: Final = (6, 14, 32)
PHOSPHORUS_GROUP: Final = (15, 33)
SULFUR_GROUP: Final = (16, 34, 52)
MOST_NEIGHBOURS: Final = {H: 1, B: 4, C: 4, N: 4, O: 3, 9: 1}
# Weights of a bond order; those with a charge are used only where another atom lacks a bond.
BOND_WEIGHT: Final = 1000
CHARGED_WEIGHT: Final = 100
# Of a charge on oxygen, and of a double bond between charged nitrogen and oxygen as in nitro
# groups: N-oxides have single ones.
RARE_WEIGHT: Final = 20
CARBON_WEIGHT: Final = 4  # for each carbon atom, which should not lack a bond
# Of the integer program, which takes milliseconds.
LIMIT_S: Final = 5.0

Pair = tuple[int, int]


class NoBondsError(Exception):
    """The bonds of a molecule cannot be perceived; the text is the end of a sentence."""


def molecules_of(atoms: "Atoms") -> list[tuple[Any, int]]:
    """Return each distinct molecule of a structure (an RDKit molecule), and how often it occurs.

    Raises NoBondsError if there is none, or if the bonds of one cannot be perceived.
    """
    counts: dict[tuple[Any, ...], int] = {}
    skeletons: dict[tuple[Any, ...], Any] = {}
    for fragment in fragments(atoms):
        skeleton = skeleton_of(fragment)
        charge = formal_charge(fragment)
        numbers = (atom.GetAtomicNum() for atom in skeleton.GetAtoms())
        key = (*numbers, *_pairs_of(skeleton), charge)
        skeletons[key] = skeleton
        counts[key] = counts.get(key, 0) + 1
    if not counts:
        raise NoBondsError("it contains no molecule, a finite group of bonded non-metal atoms")
    return [(with_bond_orders(skeletons[key], key[-1]), count) for key, count in counts.items()]


def skeleton_of(molecule: Fragment) -> Any:
    """Return the molecule with single bonds (an RDKit molecule) in RDKit's canonical order."""
    chem = rdkit_module()
    skeleton = chem.RWMol()
    for number in molecule.numbers.tolist():
        atom = chem.Atom(number)
        atom.SetNoImplicit(True)
        skeleton.AddAtom(atom)
    for i, j in _bonded_pairs(molecule):
        skeleton.AddBond(i, j, chem.BondType.SINGLE)
    skeleton.UpdatePropertyCache(strict=False)
    chem.FastFindRings(skeleton)
    ranks = list(chem.CanonicalRankAtoms(skeleton))
    return chem.RenumberAtoms(skeleton, np.argsort(ranks).tolist())


def with_bond_orders(skeleton: Any, charge: int) -> Any:
    """Return an RDKit molecule with bond orders and charges, without separate hydrogen atoms.

    Parameters
    ----------
    skeleton
        The molecule of `skeleton_of`.
    charge
        Charge of the molecule in e.

    Raises
    ------
    NoBondsError
        If no bond orders are found in `LIMIT_S`, or an atom has more bonds than it can have.
    """
    chem = rdkit_module()
    pairs = _pairs_of(skeleton)
    numbers = [atom.GetAtomicNum() for atom in skeleton.GetAtoms()]
    degrees = [atom.GetDegree() for atom in skeleton.GetAtoms()]
    extra = _extra_orders(numbers, degrees, pairs)
    orders = (chem.BondType.SINGLE, chem.BondType.DOUBLE, chem.BondType.TRIPLE)
    molecule = chem.RWMol(skeleton)
    totals = np.array(degrees)
    for (i, j), order in extra.items():
        molecule.GetBondBetweenAtoms(i, j).SetBondType(orders[order])
        totals[[i, j]] += order
    for atom, atom_charge in zip(
        molecule.GetAtoms(), _charges(numbers, totals.tolist(), charge), strict=True
    ):
        atom.SetFormalCharge(atom_charge)
    with rdkit_module("rdBase").BlockLogs():
        try:
            chem.SanitizeMol(molecule)
            return chem.RemoveHs(molecule)
        except (ValueError, RuntimeError) as error:
            raise NoBondsError(
                "an atom has more bonds than it can have, or rings have no bond orders"
            ) from error


def _pairs_of(skeleton: Any) -> list[Pair]:
    """Return the bonded pairs in the order of their atoms, on which the result may depend."""
    ends = ((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in skeleton.GetBonds())
    return sorted((min(pair), max(pair)) for pair in ends)


def _bonded_pairs(molecule: Fragment) -> list[Pair]:
    """Return the pairs of bonded atoms; an atom with too many loses its longest bonds."""
    from ase.data import covalent_radii

    radii = covalent_radii[molecule.numbers]
    lengths = cdist(molecule.positions, molecule.positions) / (radii[:, None] + radii)
    bonded = np.triu(lengths < BOND, 1)
    bonded |= bonded.T
    # Two halogen atoms of one carbon atom can be as close as bonded ones.
    is_inner = np.isin(molecule.numbers, HALOGENS) & (bonded.sum(axis=1) > 1)
    bonded &= ~(is_inner[:, None] & is_inner)
    for atom, number in enumerate(molecule.numbers.tolist()):
        around = np.flatnonzero(bonded[atom])
        surplus = len(around) - MOST_NEIGHBOURS.get(number, len(around))
        if surplus > 0:
            longest = around[np.argsort(lengths[atom, around])[-surplus:]]
            bonded[atom, longest] = bonded[longest, atom] = False
    return [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(bonded)), strict=True)]


def _free_bonds(number: int, degree: int) -> tuple[int, int]:
    """Return how many bonds an atom lacks, and how many more it can have.

    Examples
    --------
    >>> _free_bonds(6, 3), _free_bonds(7, 3), _free_bonds(16, 4)
    ((1, 0), (0, 1), (0, 2))
    """
    if number in CARBON_GROUP:
        return max(4 - degree, 0), 0
    if number == B:
        return max(3 - degree, 0), 0
    if number == N:
        return max(3 - degree, 0), 1 if degree in (2, 3) else 0
    if number == O:
        return max(2 - degree, 0), 1 if degree == 2 else 0
    if number in PHOSPHORUS_GROUP:
        return max(3 - degree, 0), {2: 1, 4: 1}.get(degree, 0)
    if number in SULFUR_GROUP:
        return max(2 - degree, 0), {2: 1, 3: 1, 4: 2}.get(degree, 0)
    if number in HALOGENS:
        return 0, {2: 1, 3: 2, 4: 3}.get(degree, 0)
    return 0, 0


def _extra_orders(numbers: list[int], degrees: list[int], pairs: list[Pair]) -> dict[Pair, int]:
    """Return the bond orders above one, 1 or 2, of the pairs that have such orders."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    free = [_free_bonds(n, d) for n, d in zip(numbers, degrees, strict=True)]
    lacks, spare = zip(*free, strict=True)
    # Each variable takes bonds of two atoms: those that they lack, or a spare one of the first.
    variables: list[tuple[int, Pair, bool]] = []
    for k, (i, j) in enumerate(pairs):
        if lacks[i] and lacks[j]:
            variables.append((k, (i, j), False))
        variables += [
            (k, pair, True) for pair in ((i, j), (j, i)) if spare[pair[0]] and lacks[pair[1]]
        ]
    if not variables:
        return {}
    n = len(numbers)
    uses: NDArray[np.float64] = np.zeros((2 * n + len(pairs), len(variables)))
    weights = np.empty(len(variables))
    for column, (k, (i, j), is_charged) in enumerate(variables):
        uses[[n + i if is_charged else i, j, 2 * n + k], column] = 1.0
        weights[column] = _weight((numbers[i], numbers[j]), is_charged=is_charged)
        # Of equal choices the one in the middle of a chain: R-N=N(+)=N(-).
        weights[column] += min(degrees[i], degrees[j])
    limits = np.array([*lacks, *spare, *itertools.repeat(2, len(pairs))], dtype=np.float64)
    used_rows = uses.any(axis=1)
    result = milp(
        -weights,
        constraints=LinearConstraint(uses[used_rows], ub=limits[used_rows]),
        integrality=np.ones(len(variables), dtype=np.int64),
        bounds=Bounds(0, 2),
        options={"time_limit": LIMIT_S},
    )
    if not result.success:
        reason = f"within {LIMIT_S:g} s" if result.status == 1 else f"({result.message})"
        raise NoBondsError(f"no bond orders were found {reason}")
    extra: dict[Pair, int] = {}
    for (k, _, _), order in zip(variables, np.rint(result.x).astype(int).tolist(), strict=True):
        if order:
            extra[pairs[k]] = extra.get(pairs[k], 0) + order
    return extra


def _weight(pair: Pair, *, is_charged: bool) -> int:
    """Return the weight of a bond order of two elements; the first is charged."""
    of_carbon = CARBON_WEIGHT * pair.count(C)
    if not is_charged:
        return BOND_WEIGHT + of_carbon
    is_rare = pair[0] == O or pair == (N, O)
    return (RARE_WEIGHT if is_rare else CHARGED_WEIGHT) + of_carbon


def _charges(numbers: list[int], totals: list[int], charge: int) -> list[int]:
    """Return the charge of every atom from its sum of bond orders, and that of the molecule."""
    charges = [_charge(number, total) for number, total in zip(numbers, totals, strict=True)]
    for atom, (number, total) in enumerate(zip(numbers, totals, strict=True)):
        missing = charge - sum(charges)
        if number in CARBON_GROUP and total == 3 and missing:
            charges[atom] = 1 if missing > 0 else -1
    return charges


def _charge(number: int, total: int) -> int:
    """Return the charge of an atom with this sum of bond orders."""
    if number == B:
        return -1 if total == 4 else 0
    if number == N:
        return {4: 1, 2: -1, 1: -2}.get(total, 0)
    if number == O:
        return {3: 1, 1: -1}.get(total, 0)
    if number in PHOSPHORUS_GROUP:
        return {4: 1, 2: -1}.get(total, 0)
    if number in SULFUR_GROUP:
        return {3: 1, 1: -1, 5: 1}.get(total, 0)
    if number in HALOGENS:
        return {2: 1}.get(total, 0)
    return 0
