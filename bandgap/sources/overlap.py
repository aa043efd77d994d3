"""Which structures and molecules of a target was the source trained on? Keys that a source stores, and their match.

A structure's key is a hash of its geometry. A molecule's key is a hash of its graph of bonds, hydrogens included, by
colour refinement (Weisfeiler and Leman, 1968): the same molecule in another conformation, or in a crystal, has the same
key. Bonds are contacts below 1.25 times the sum of covalent radii; bond orders and stereochemistry do not enter. A few
pairs of different molecules share a key, as colour refinement cannot tell them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from ase import Atoms
from numpy.typing import NDArray
from safetensors.torch import load_file

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError
from bandgap.storage.tensors import save_tensors
from bandgap.structures import StructureRecord
from bandgap.structures.bonds import bonds, molecules

KNOWN = "known.safetensors"
ROUNDS = 24  # of refinement: colours then know their surroundings up to 24 bonds away

Keys = NDArray[np.uint64]
_MULTIPLIERS = tuple(
    np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, eq=False)
class Known:
    """Sorted keys of the structures and of the molecules of a source set."""

    structures: Keys
    molecules: Keys


@dataclass(frozen=True)
class Overlap:
    """Of `n` target structures, how many the source was trained on, and how many hold a molecule that it knows."""

    n: int
    structures: int
    molecules: int


def molecule_keys(atoms: Atoms) -> Keys:
    """Return the sorted distinct keys of the bonded molecules of a structure; a network of bonds counts as one."""
    n_molecules, which = molecules(atoms)
    colours = _refined(np.asarray(atoms.numbers), *bonds(atoms))
    totals = np.zeros(n_molecules, dtype=np.uint64)
    np.add.at(totals, which, _mixed(colours))
    return np.unique(_mixed(totals))


def known_of(records: Sequence[StructureRecord]) -> Known:
    """Return the keys of all structures that were read."""
    present = [record for record in records if record.atoms is not None]
    found = [molecule_keys(record.atoms) for record in present if record.atoms is not None]
    structures = np.array([structure_key(record) for record in present], dtype=np.uint64)
    return Known(np.unique(structures), np.unique(np.concatenate([np.empty(0, np.uint64), *found])))


def overlap(known: Known, records: Sequence[StructureRecord]) -> Overlap:
    """Count the structures that the source holds, and those of which at least one molecule occurs in it."""
    same = shared = 0
    for record in records:
        if record.atoms is None:
            continue
        same += bool(np.isin(np.uint64(structure_key(record)), known.structures))
        shared += bool(np.isin(molecule_keys(record.atoms), known.molecules).any())
    return Overlap(len(records), same, shared)


def structure_key(record: StructureRecord) -> int:
    """Return the first 64 bits of the hash of a structure's geometry."""
    return int(record.content[:16], 16)


def save_known(folder: Path, known: Known) -> None:
    """Write the keys beside a source model."""
    arrays = {"structures": known.structures, "molecules": known.molecules}
    save_tensors({k: torch.from_numpy(v.view(np.int64)) for k, v in arrays.items()}, folder / KNOWN)


def load_known(folder: Path) -> Known | None:
    """Return the keys of a source, None where it was stored without; raises ArtifactError on a damaged file."""
    path = folder / KNOWN
    if not path.is_file():
        return None
    try:
        arrays = load_file(path)
        return Known(
            *(arrays[name].numpy().view(np.uint64) for name in ("structures", "molecules"))
        )
    except DAMAGE as error:
        raise ArtifactError(
            f"{path} cannot be read ({error}). The folder is damaged; make it again."
        ) from error


def _refined(numbers: NDArray[np.int_], i: NDArray[np.intp], j: NDArray[np.intp]) -> Keys:
    """Return the colour (n,) of every atom after `ROUNDS` rounds in which it takes in the colours of its neighbours."""
    colours = _mixed(numbers.astype(np.uint64))
    for _ in range(ROUNDS):
        around = np.zeros_like(colours)
        seen = _mixed(colours)
        np.add.at(around, i, seen[j])
        np.add.at(around, j, seen[i])
        colours = _mixed(_MULTIPLIERS[0] * colours + around)
    return colours


def _mixed(values: Keys) -> Keys:
    """Return values (n,) with their bits mixed (the finaliser of splitmix64; Steele, Lea and Flood, 2014)."""
    z = values + _MULTIPLIERS[0]
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLIERS[1]
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLIERS[2]
    return z ^ (z >> np.uint64(31))
