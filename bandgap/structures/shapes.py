"""Store shapes of structures for a viewer: atoms, bonds, cell and a few numbers.

One file has the shapes of a data set, and one row can be read without the others. The worker
writes it when it checks structure files. The dashboard's pages read it, therefore this module
imports only numpy and safetensors.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.tensor_files import LongTensor, write_tensors

FORMAT = "bandgap-shapes-1"

Floats = NDArray[np.float64]
BATCH = 500  # shapes that are in memory while they are written

_NUMBERS = ("density_g_cm3", "shortest_angstrom", "contact_angstrom")
_JOINED = ("numbers", "positions", "bonds", "shifts")
_RowType = tuple[type[np.generic], tuple[int, ...]]
_ARRAYS: dict[str, _RowType] = {  # of the file: type and shape of a row
    "atom_ends": (np.int64, ()),
    "bond_ends": (np.int64, ()),
    "numbers": (np.uint8, ()),
    "positions": (np.float32, (3,)),
    "bonds": (np.uint16, (2,)),
    "shifts": (np.int8, (3,)),
    "cells": (np.float32, (9,)),
    "pbc": (np.uint8, (3,)),
    "scalars": (np.float32, (3,)),
    "counts": (np.int32, (5,)),
}


@dataclass(frozen=True, eq=False)
class Shape:
    """Atoms of a structure with whole molecules, in Angstrom; a distance without a pair is NaN."""

    numbers: NDArray[np.uint8]  # (atom,)
    positions: Floats  # (atom, 3)
    cell: Floats  # (3, 3), zero for a direction that is not periodic
    pbc: NDArray[np.bool_]  # (3,)
    bonds: NDArray[np.uint16]  # (bond, 2)
    # (bond, 3): cells between the second atom and its image that is bonded to the first atom.
    shifts: NDArray[np.int8]
    density_g_cm3: float = float("nan")
    shortest_angstrom: float = float("nan")  # of all pairs of atoms
    shortest_pair: tuple[int, int] = (0, 0)
    contact_angstrom: float = float("nan")  # of pairs of atoms in different molecules
    contact_pair: tuple[int, int] = (0, 0)
    n_molecules: int = 0


def save_shapes(path: Path, shapes: Iterable[Shape | None]) -> None:
    """Write one shape for every row of a data set, None for a refused structure.

    The file has about 21 bytes for an atom. `BATCH` shapes are in memory at a time; the others are
    in temporary files until all are available.
    """
    with ExitStack() as opened:
        files = {name: opened.enter_context(tempfile.TemporaryFile()) for name in _ARRAYS}
        lengths = dict.fromkeys(_ARRAYS, 0)
        remaining = iter(shapes)
        while batch := [shape or _EMPTY for shape in islice(remaining, BATCH)]:
            arrays = _arrays(batch, n_atoms=lengths["numbers"], n_bonds=lengths["bonds"])
            for name, array in arrays.items():
                files[name].write(array.tobytes())
                lengths[name] += len(array)
        tensors = {
            name: LongTensor.read(files[name], dtype, (lengths[name], *width))
            for name, (dtype, width) in _ARRAYS.items()
        }
        write_tensors(path, tensors, metadata={"format": FORMAT})


def has_shapes(path: Path, n: int) -> bool:
    """Return whether a file contains the shapes of `n` rows."""
    try:
        with _opened(path) as stored:
            return bool(stored.get_slice("cells").get_shape()[0] == n)
    except ArtifactError:
        return False


def _arrays(
    shapes: Sequence[Shape], *, n_atoms: int, n_bonds: int
) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of shapes by name; `n_atoms` and `n_bonds` come before them in the file."""
    arrays: dict[str, Any] = {
        "atom_ends": n_atoms + np.cumsum([len(s.numbers) for s in shapes]),
        "bond_ends": n_bonds + np.cumsum([len(s.bonds) for s in shapes]),
        **{name: np.concatenate([getattr(s, name) for s in shapes]) for name in _JOINED},
        "cells": [s.cell for s in shapes],
        "pbc": [s.pbc for s in shapes],
        "scalars": [[getattr(s, name) for name in _NUMBERS] for s in shapes],
        "counts": [[*s.shortest_pair, *s.contact_pair, s.n_molecules] for s in shapes],
    }
    return {
        name: np.asarray(arrays[name], dtype).reshape(-1, *width)
        for name, (dtype, width) in _ARRAYS.items()
    }


def load_shape(path: Path, row: int) -> Shape | None:
    """Return the shape of one row without reading the others, None for a refused structure.

    Raises ArtifactError if the file is missing or damaged, or has no such row.
    """
    with _opened(path) as stored:
        tensor = stored.get_slice
        if not 0 <= row < tensor("cells").get_shape()[0]:
            raise ValueError(f"no row {row}")
        start = [
            int(tensor(name)[row - 1 : row][0]) if row else 0 for name in ("atom_ends", "bond_ends")
        ]
        end = [int(tensor(name)[row : row + 1][0]) for name in ("atom_ends", "bond_ends")]
        if end[0] == start[0]:
            return None
        atoms = slice(start[0], end[0])
        bonds = slice(start[1], end[1])
        density, shortest, contact = tensor("scalars")[row : row + 1][0].astype(float)
        counts = [int(value) for value in tensor("counts")[row : row + 1][0]]
        has_bonds = end[1] > start[1]  # an empty slice at the end is out of bounds
        return Shape(
            numbers=tensor("numbers")[atoms],
            positions=tensor("positions")[atoms].astype(np.float64),
            cell=tensor("cells")[row : row + 1].astype(np.float64).reshape(3, 3),
            pbc=tensor("pbc")[row : row + 1][0].astype(bool),
            bonds=tensor("bonds")[bonds] if has_bonds else _EMPTY.bonds,
            shifts=tensor("shifts")[bonds] if has_bonds else _EMPTY.shifts,
            density_g_cm3=float(density),
            shortest_angstrom=float(shortest),
            shortest_pair=(counts[0], counts[1]),
            contact_angstrom=float(contact),
            contact_pair=(counts[2], counts[3]),
            n_molecules=counts[4],
        )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file of shapes. Errors on reading become ArtifactError."""
    try:
        with safe_open(str(path), framework="numpy") as stored:
            if (stored.metadata() or {}).get("format") != FORMAT:
                raise ValueError("another format")
            yield stored
    except DAMAGE as error:
        raise ArtifactError(
            f"{path.name}: the stored structures cannot be read ({error})."
        ) from error


def cell_lengths_angles(cell: Floats) -> tuple[Floats, Floats]:
    """Return the lengths (3,) in Angstrom and the angles (3,) in degrees of a cell (3, 3).

    The angles are alpha, beta and gamma. Angles with a vector of length zero are NaN.

    >>> [value.tolist() for value in cell_lengths_angles(np.diag([3.0, 4.0, 5.0]))]
    [[3.0, 4.0, 5.0], [90.0, 90.0, 90.0]]
    """
    lengths = np.linalg.norm(cell, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = [
            cell[i] @ cell[j] / (lengths[i] * lengths[j]) for i, j in ((1, 2), (0, 2), (0, 1))
        ]
    return lengths, np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


_EMPTY = Shape(
    numbers=np.zeros(0, np.uint8),
    positions=np.zeros((0, 3)),
    cell=np.zeros((3, 3)),
    pbc=np.zeros(3, bool),
    bonds=np.zeros((0, 2), np.uint16),
    shifts=np.zeros((0, 3), np.int8),
)
