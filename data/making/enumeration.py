"""Random organic molecules from ring cores, linkers and substituents, in a reproducible order.

Candidate `i` of seed `s` depends only on (s, i). One fifth of all connectivities, selected by a
hash of the first block of the InChIKey, is reserved for crystals, so that no molecule is in both
sets.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdMolDescriptors

from data.making.fragments import CORES, LINKERS, SUBSTITUENTS

Purpose = Literal["molecules", "crystals"]

ELEMENTS: Final = ("H", "C", "N", "O", "F", "S", "Cl")
ATOMS: Final[dict[Purpose, tuple[int, int]]] = {"molecules": (5, 60), "crystals": (8, 38)}
RESERVED_SHARE: Final = 5  # One connectivity in five is reserved for crystals.
MAX_ROTATABLE: Final = 2  # Of a molecule in a crystal, which is packed as a rigid body.
MIN_CONJUGATED: Final = 6  # Bonds of a molecule in a crystal.

# Shares of skeletons with one, two and three cores, and of their numbers of substituents 0, 1, ...
_CORE_COUNTS: Final[dict[Purpose, tuple[float, ...]]] = {
    "molecules": (0.42, 0.48, 0.10),
    "crystals": (0.72, 0.28, 0.0),
}
_SUBSTITUENT_COUNTS: Final = (
    (0.03, 0.27, 0.38, 0.22, 0.10),
    (0.18, 0.40, 0.30, 0.12),
    (0.45, 0.40, 0.15),
)


@dataclass(frozen=True)
class Candidate:
    """A molecule by its canonical SMILES; `index` is its position in the stream of a seed."""

    index: int
    smiles: str
    inchikey: str
    formula: str
    n_atoms: int


def item_seed(seed: int, smiles: str) -> int:
    """Return the 31-bit seed of a molecule, a hash of `seed` and the SMILES."""
    return (
        int.from_bytes(hashlib.sha256(f"{seed}|{smiles}".encode()).digest()[:4], "little")
        & 0x7FFFFFFF
    )


def reserved_for_crystals(inchikey: str) -> bool:
    """Return whether the connectivity of an InChIKey is reserved for crystals."""
    return hashlib.sha256(inchikey[:14].encode()).digest()[0] % RESERVED_SHARE == 0


def candidates(seed: int, purpose: Purpose, *, start: int = 0) -> Iterator[Candidate]:
    """Yield distinct molecules of a set, without end, in the order of their index."""
    yielded_keys: set[str] = set()
    index = start
    while True:
        candidate = candidate_at(seed, purpose, index=index)
        index += 1
        if candidate is not None and candidate.inchikey not in yielded_keys:
            yielded_keys.add(candidate.inchikey)
            yield candidate


def candidate_at(seed: int, purpose: Purpose, *, index: int) -> Candidate | None:
    """Return candidate `index`, or None if the draw is no valid molecule of this set."""
    stream = 0 if purpose == "molecules" else 1
    rng = np.random.default_rng([seed, stream, index])
    with rdBase.BlockLogs():
        molecule = _draw(rng, purpose)
        return None if molecule is None else _accept(molecule, purpose, index=index)


def _accept(molecule: Chem.Mol, purpose: Purpose, *, index: int) -> Candidate | None:
    """Return the molecule as a candidate, or None if it violates a rule of the set."""
    low, high = ATOMS[purpose]
    n_atoms = int(rdMolDescriptors.CalcNumHeavyAtoms(molecule)) + sum(
        a.GetTotalNumHs() for a in molecule.GetAtoms()
    )
    if not low <= n_atoms <= high:
        return None
    if not any(b.GetIsAromatic() or b.GetBondTypeAsDouble() >= 2 for b in molecule.GetBonds()):
        # GFN2-xTB gaps of saturated molecules are 10 to 16 eV, far above those of the crystals.
        return None
    if purpose == "crystals" and not _rigid_and_conjugated(molecule):
        return None
    smiles = Chem.MolToSmiles(molecule)
    to_inchikey: Any = Chem.MolToInchiKey
    # From the SMILES: RDKit 2026.09 sometimes omits double-bond geometry from the key of the joined
    # molecule.
    inchikey = str(to_inchikey(Chem.MolFromSmiles(smiles)))
    if not inchikey or reserved_for_crystals(inchikey) != (purpose == "crystals"):
        return None
    return Candidate(
        index, smiles, inchikey, str(rdMolDescriptors.CalcMolFormula(molecule)), n_atoms
    )


def _rigid_and_conjugated(molecule: Chem.Mol) -> bool:
    conjugated = sum(bool(b.GetIsConjugated()) for b in molecule.GetBonds())
    rotatable = int(rdMolDescriptors.CalcNumRotatableBonds(molecule))
    return conjugated >= MIN_CONJUGATED and rotatable <= MAX_ROTATABLE


def _draw(rng: np.random.Generator, purpose: Purpose) -> Chem.Mol | None:
    """Join cores by linkers and add substituents; None if no site is free or a valence is wrong."""
    n_cores = 1 + int(rng.choice(3, p=_CORE_COUNTS[purpose]))
    molecule = _core(rng)
    for _ in range(n_cores - 1):
        joined = _attach(rng, molecule, Chem.MolFromSmiles(_pick(rng, LINKERS)), other=_core(rng))
        if joined is None:
            return None
        molecule = joined
    counts = _SUBSTITUENT_COUNTS[n_cores - 1]
    for _ in range(int(rng.choice(len(counts), p=counts))):
        grown = _attach(rng, molecule, Chem.MolFromSmiles(_pick(rng, SUBSTITUENTS)))
        if grown is None:
            return None
        molecule = grown
    return molecule


def _core(rng: np.random.Generator) -> Chem.Mol:
    families = list(CORES)
    shares = np.array([CORES[f][0] for f in families])
    members = CORES[families[int(rng.choice(len(families), p=shares / shares.sum()))]][1]
    molecule = Chem.MolFromSmiles(members[int(rng.integers(len(members)))])
    for atom in molecule.GetAtoms():
        atom.SetIntProp("core", 1)
    return molecule


def _pick(rng: np.random.Generator, choices: Sequence[tuple[float, str]]) -> str:
    shares = np.array([share for share, _ in choices])
    return choices[int(rng.choice(len(choices), p=shares / shares.sum()))][1]


def _attach(
    rng: np.random.Generator, molecule: Chem.Mol, piece: Chem.Mol, *, other: Chem.Mol | None = None
) -> Chem.Mol | None:
    """Attach `piece` to a random site of `molecule`, and `other` to the second open end."""
    parts = [_open_site(rng, molecule, label=1), piece] + (
        [] if other is None else [_open_site(rng, other, label=2)]
    )
    if any(p is None for p in parts):
        return None
    # The linker is a single bond: label the second core like the first one.
    if other is not None and piece.GetNumAtoms() == 2:
        parts = [parts[0], _open_site(rng, other, label=1)]
    combined = parts[0]
    for part in parts[1:]:
        combined = Chem.CombineMols(combined, part)
    try:
        joined = Chem.molzip(combined)
        Chem.SanitizeMol(joined)
    except (ValueError, RuntimeError):
        return None
    return joined


def _open_site(rng: np.random.Generator, molecule: Chem.Mol, *, label: int) -> Chem.Mol | None:
    """Replace a hydrogen of a random core carbon by a dummy atom with this label."""
    sites = [
        a.GetIdx()
        for a in molecule.GetAtoms()
        if a.HasProp("core") and a.GetSymbol() == "C" and a.GetTotalNumHs() > 0
    ]
    if not sites:
        return None
    editable = Chem.RWMol(molecule)
    dummy = Chem.Atom(0)
    dummy.SetAtomMapNum(label)
    site = sites[int(rng.integers(len(sites)))]
    editable.AddBond(site, editable.AddAtom(dummy), Chem.BondType.SINGLE)
    opened = editable.GetMol()
    Chem.SanitizeMol(opened)
    return opened
