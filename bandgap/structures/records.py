"""What reading a structure file gives: the record, its problems and the limits that it was read under."""

import dataclasses
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    from ase import Atoms  # pages read the formats' names, and must not load it

Severity = Literal["warning", "refused"]
Status = Literal["ready", "warning", "refused"]
InfoValue = float | int | str | bool


@dataclass(frozen=True)
class Problem:
    """One thing that the user should know about a structure, in one sentence."""

    severity: Severity
    text: str


@dataclass(frozen=True)
class Limits:
    """How much is read before a file, a structure or an archive is refused; every limit can be set.

    `max_file_bytes` holds for one structure file after decompression, `max_archive_bytes` for a zip archive, both as
    it is and unpacked. `max_compression_ratio` is unpacked over packed size, looked at above 1 MB only.
    Raises ConfigError when a limit is not a positive whole number.
    """

    max_file_bytes: int = 200_000_000
    max_archive_bytes: int = 1_000_000_000
    max_compression_ratio: int = 200
    max_atoms: int = 1_000
    max_structures: int = 100_000

    def __post_init__(self) -> None:
        for limit in dataclasses.fields(self):
            value = getattr(self, limit.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"Limits.{limit.name}: found {value!r}. Accepted: a whole number of at least 1.")


DEFAULT_LIMITS = Limits()
STREAM_LIMITS = Limits(  # of a reader that keeps no structures: any number of them
    max_file_bytes=2_000_000_000, max_archive_bytes=20_000_000_000, max_structures=sys.maxsize
)


@dataclass(frozen=True, eq=False)
class StructureRecord:
    """One structure as it was read, or the reason why it was not.

    `atoms` is None exactly when the structure is refused; positions and cell are in Angstrom. `info` holds the
    key=value pairs of an extXYZ comment line (numbers as numbers, ids as text), and for CIF the block's name.
    """

    id: str
    file: str
    format: str  # "CIF", "POSCAR", "XYZ", "extXYZ", "PDB", "SHELX", "FHI-aims", or "" when it was not recognised
    atoms: "Atoms | None"
    problems: tuple[Problem, ...] = ()
    info: Mapping[str, InfoValue] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """Return the most severe of the problems, or "ready"."""
        severities = {problem.severity for problem in self.problems}
        return "refused" if "refused" in severities else "warning" if severities else "ready"

    @property
    def problem(self) -> str:
        """Return the problems' sentences, joined by "; "."""
        return "; ".join(problem.text for problem in self.problems)

    @property
    def verdict(self) -> str:
        """Return the line that the user reads: "ready", "usable: ..." or "refused: ..."."""
        words = {"ready": "ready", "warning": f"usable: {self.problem}", "refused": f"refused: {self.problem}"}
        return words[self.status]

    @property
    def formula(self) -> str:
        """Return the Hill formula, "" when the structure was refused."""
        return "" if self.atoms is None else str(self.atoms.symbols.get_chemical_formula(mode="hill"))

    @property
    def n_atoms(self) -> int:
        """Return the number of atoms (of the cell, when periodic), 0 when the structure was refused."""
        return 0 if self.atoms is None else len(self.atoms)

    @property
    def periodic(self) -> bool:
        """Return whether the structure repeats in any direction."""
        return self.atoms is not None and bool(self.atoms.pbc.any())

    @property
    def content(self) -> str:
        """Return SHA-256 (hexadecimal) of what defines the structure, "" when it was refused.

        Hashed in this order as little-endian float64: numbers (n,), positions (n, 3), cell (3, 3), pbc (3,).
        """
        if self.atoms is None:
            return ""
        digest = hashlib.sha256()
        for part in (self.atoms.numbers, self.atoms.positions, self.atoms.cell.array, self.atoms.pbc):
            digest.update(np.ascontiguousarray(np.asarray(part, dtype="<f8") + 0.0).tobytes())  # -0.0 becomes 0.0
        return digest.hexdigest()


class Records(Protocol):
    """Records that can be counted and walked through again and again, be they a list or on the disk."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __iter__(self) -> Iterator[StructureRecord]:
        """Walk through them, in one order."""
