"""The structures and molecules of a target that a source was trained on, found by stored keys.

The key of a structure is a hash of its geometry. The key of a molecule is a hash of its graph of
bonds with hydrogens, by colour refinement (Weisfeiler and Leman, 1968): the same molecule in
another conformation, or in a crystal, has the same key. Bonds are contacts below 1.25 times the sum
of covalent radii; bond orders and stereochemistry are ignored. A few different molecules have the
same key, because colour refinement cannot distinguish them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from numpy.typing import NDArray
from safetensors.numpy import load_file

from bandgap.foundation.damage import DAMAGE, MAX_JSON_BYTES, parse_json
from bandgap.storage.arrays import damaged_file, save_arrays
from bandgap.storage.stored_fields import WORDS
from bandgap.structures import StructureRecord
from bandgap.structures.bonds import bonds
from bandgap.structures.neighbours import bonded_groups

KEYS = "known.safetensors"
# Rounds of refinement: a colour then depends on the surroundings up to 24 bonds away.
ROUNDS = 24

Keys = NDArray[np.uint64]
_MULTIPLIERS = tuple(
    np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, eq=False)
class SourceKeys:
    """Sorted keys of the structures and of the molecules of a source set."""

    structures: Keys
    molecules: Keys


@dataclass(frozen=True)
class Overlap:
    """Overlap of a target with the source data.

    Parameters
    ----------
    n
        Number of target structures.
    structures
        How many of them the source was trained on; None for a shipped model, which has no keys.
    molecules
        How many contain at least one molecule of the source data; None for a shipped model.
    near_copies
        How many have a near-copy in the source data, or are in them; None if it is not known.
    """

    n: int
    structures: int | None = None
    molecules: int | None = None
    near_copies: int | None = None


def molecule_keys(atoms: Atoms) -> Keys:
    """Return the sorted distinct keys of the molecules of a structure; a network counts as one."""
    i, j = bonds(atoms)
    n_molecules, molecule_of_atom = bonded_groups(len(atoms), i, j)
    colours = _refined(np.asarray(atoms.numbers), i, j)
    totals = np.zeros(n_molecules, dtype=np.uint64)
    np.add.at(totals, molecule_of_atom, _mixed(colours))
    return np.unique(_mixed(totals))


def keys_of(records: Sequence[StructureRecord]) -> SourceKeys:
    """Return the keys of all structures that were read."""
    readable = [record for record in records if record.atoms is not None]
    of_records = [molecule_keys(record.atoms) for record in readable if record.atoms is not None]
    structures = np.array([structure_key(record) for record in readable], dtype=np.uint64)
    molecules_of_all = np.concatenate([np.empty(0, np.uint64), *of_records])
    return SourceKeys(np.unique(structures), np.unique(molecules_of_all))


def overlap(keys: SourceKeys, records: Sequence[StructureRecord]) -> Overlap:
    """Count the structures in the source data, and those with a molecule in the source data."""
    known_structures = set(keys.structures.tolist())
    known_molecules = set(keys.molecules.tolist())
    n_structures = 0
    n_with_molecule = 0
    for record in records:
        if record.atoms is None:
            continue
        n_structures += structure_key(record) in known_structures
        n_with_molecule += not known_molecules.isdisjoint(molecule_keys(record.atoms).tolist())
    return Overlap(len(records), n_structures, n_with_molecule)


def structure_key(record: StructureRecord) -> int:
    """Return the first 64 bits of the hash of a structure's geometry."""
    return int(record.content[:16], 16)


def save_keys(
    folder: Path, keys: SourceKeys, distances: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write the keys, and the distances of near-copies, into the folder of a source model."""
    arrays = {"structures": keys.structures, "molecules": keys.molecules, **(distances or {})}
    stored = {
        name: array.view(np.int64) if array.dtype == np.uint64 else array
        for name, array in arrays.items()
    }
    save_arrays(stored, folder / KEYS)


def load_keys(folder: Path) -> SourceKeys | None:
    """Return the keys of a source, or None if it has none; raise ArtifactError if damaged."""
    arrays = load_arrays(folder)
    if arrays is None or "n_nearest" in arrays:
        return None
    return SourceKeys(*(arrays[name].view(np.uint64) for name in ("structures", "molecules")))


def load_arrays(folder: Path) -> dict[str, NDArray[Any]] | None:
    """Return the stored arrays by name, None if there are none; raise ArtifactError if damaged.

    Those of a shipped model are distances, and the number of atoms `n_nearest` to which they are.
    """
    path = folder / KEYS
    if not path.is_file():
        return None
    try:
        arrays: dict[str, NDArray[Any]] = load_file(path)
        if WORDS in arrays:
            plain = parse_json(arrays[WORDS].tobytes(), what=WORDS, max_bytes=MAX_JSON_BYTES)
            n_nearest = np.array(plain["distances"]["n_nearest"])
            arrays = {name.removeprefix("distances."): array for name, array in arrays.items()}
            return {**arrays, "n_nearest": n_nearest}
        return {"structures": arrays["structures"], "molecules": arrays["molecules"], **arrays}
    except DAMAGE as error:
        raise damaged_file(path, str(error)) from error


def _refined(numbers: NDArray[np.int_], i: NDArray[np.intp], j: NDArray[np.intp]) -> Keys:
    """Return the colour (n,) of every atom after rounds of adding the colours of its neighbours."""
    colours = _mixed(numbers.astype(np.uint64))
    for _ in range(ROUNDS):
        sums = np.zeros_like(colours)
        mixed = _mixed(colours)
        np.add.at(sums, i, mixed[j])
        np.add.at(sums, j, mixed[i])
        colours = _mixed(_MULTIPLIERS[0] * colours + sums)
    return colours


def _mixed(values: Keys) -> Keys:
    """Return values (n,) with their bits mixed.

    This is the finaliser of splitmix64 (Steele, Lea and Flood, 2014).
    """
    z = values + _MULTIPLIERS[0]
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLIERS[1]
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLIERS[2]
    return z ^ (z >> np.uint64(31))
