"""Make copies of structures with random displacements of all atoms, to augment training data.

The geometries of a data set come from one method, those of a prediction often from another. Their
bonds differ by a few hundredths of an angstrom. A network that was trained on relaxed geometries
only is sensitive to such differences.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.structures.records import StructureRecord

DISPLACEMENT = 0.04  # angstrom, the default
LARGEST_DISPLACEMENT = 0.3  # angstrom; changes bonds by about 0.4, a quarter of their length


def check_displacement(sd_angstrom: float) -> None:
    """Raise ConfigError if a standard deviation is not from 0 (no displacement) to 0.3 angstrom."""
    if not 0 <= sd_angstrom <= LARGEST_DISPLACEMENT:
        raise ConfigError(
            f"atoms cannot be displaced by {sd_angstrom} angstrom. Accepted: a standard deviation"
            f" from 0 (no displaced copies) to {LARGEST_DISPLACEMENT:g} angstrom; {DISPLACEMENT:g}"
            " is a good one."
        )


def displaced(
    records: Sequence[StructureRecord], sd_angstrom: float, *, seed: int, copy: int = 0
) -> list[StructureRecord]:
    """Return the records with normal noise added to every coordinate.

    Parameters
    ----------
    records
        Structures; refused ones are returned unchanged. Cells and ids do not change.
    sd_angstrom
        Standard deviation of the noise.
    seed, copy
        Seed and number of the copy. The noise depends on these and on the structure, and not on
        the order of the records or on their ids.

    Raises
    ------
    ConfigError
        If the standard deviation is outside 0 to 0.3 angstrom.
    """
    check_displacement(sd_angstrom)
    return [_displaced(record, sd_angstrom, key=(seed, copy)) for record in records]


def _displaced(
    record: StructureRecord, sd_angstrom: float, *, key: tuple[int, int]
) -> StructureRecord:
    if record.atoms is None:
        return record
    rng = np.random.default_rng([*key, int(record.content, 16)])
    atoms = record.atoms.copy()  # type: ignore[no-untyped-call]
    atoms.positions += rng.normal(0.0, sd_angstrom, atoms.positions.shape)
    return replace(record, atoms=atoms)
