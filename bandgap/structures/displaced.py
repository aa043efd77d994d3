"""Copies of structures with every atom displaced at random, for a training that shall not hang on exact geometries.

Geometries of a data set come from one method, those of a prediction often from another. A network that was trained on
relaxed geometries alone takes what the methods differ by, a few hundredths of an angstrom in a bond, for a change of
the molecule.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.structures.records import StructureRecord

DISPLACEMENT = 0.04  # angstrom, where nothing else is asked for
LARGEST_DISPLACEMENT = 0.3  # angstrom: bonded atoms part by 0.4, a quarter of a bond's length


def check_displacement(sd_angstrom: float) -> None:
    """Raise ConfigError for a standard deviation that is not a number from 0 (no displacement) to 0.3 angstrom."""
    if not 0 <= sd_angstrom <= LARGEST_DISPLACEMENT:
        raise ConfigError(
            f"atoms cannot be displaced by {sd_angstrom} angstrom. Accepted: a standard deviation"
            f" from 0 (no displaced copies) to {LARGEST_DISPLACEMENT:g} angstrom; {DISPLACEMENT:g}"
            " is a good one."
        )


def displaced(
    records: Sequence[StructureRecord], sd_angstrom: float, *, seed: int, copy: int = 0
) -> list[StructureRecord]:
    """Return the records with normal noise of standard deviation `sd_angstrom` added to every coordinate.

    Cells, ids and all else stay. The noise comes from the seed, the number of the copy and the structure alone, not
    from the order of the records or from their ids, so that a second run finds the same copies. Raises ConfigError as
    `check_displacement`.
    """
    check_displacement(sd_angstrom)
    return [_displaced(record, sd_angstrom, key=(seed, copy)) for record in records]


def _displaced(
    record: StructureRecord, sd_angstrom: float, *, key: tuple[int, int]
) -> StructureRecord:
    if record.atoms is None:
        return record
    rng = np.random.default_rng([*key, int(record.content, 16)])
    moved = record.atoms.copy()  # type: ignore[no-untyped-call]
    moved.positions += rng.normal(0.0, sd_angstrom, moved.positions.shape)
    return replace(record, atoms=moved)
