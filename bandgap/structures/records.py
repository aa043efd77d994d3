"""Records of structures that were read from files, their problems and counts, and the limits."""

import dataclasses
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError, printable

if TYPE_CHECKING:
    from ase import Atoms  # slow to import; the dashboard's pages only need the formats' names

Severity = Literal["warning", "refused"]
Status = Literal["ready", "warning", "refused"]
InfoValue = float | int | str | bool


@dataclass(frozen=True)
class Problem:
    """A warning, or the reason why a structure is refused, in one sentence."""

    severity: Severity
    text: str


@dataclass(frozen=True)
class Limits:
    """Largest sizes and counts that are read; a file, structure or archive beyond them is refused.

    Parameters
    ----------
    max_file_bytes
        Size of one structure file after decompression.
    max_archive_bytes
        Size of a zip archive, both packed and unpacked.
    max_compression_ratio
        Unpacked size divided by packed size, checked for files of more than 1 MB unpacked.
    max_atoms
        Number of atoms of one structure.
    max_structures
        Number of structures of one call.

    Raises
    ------
    ConfigError
        If a limit is not a whole number of at least 1.
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
                raise ConfigError(
                    f"Limits.{limit.name}: found {value!r}. Accepted: a whole number of at least 1."
                )


SHOWN = 3  # number of refused structures whose reasons a tally keeps
DEFAULT_LIMITS = Limits()
STREAM_LIMITS = Limits(  # for readers that do not keep the structures in memory
    max_file_bytes=2_000_000_000, max_archive_bytes=20_000_000_000, max_structures=sys.maxsize
)


@dataclass(frozen=True)
class OwnTable:
    """The user's own table of numbers: its columns, its file, and the SHA-256 of its content."""

    columns: tuple[str, ...]
    file: str
    sha256: str = ""


@dataclass(frozen=True, eq=False)
class OwnRow:
    """Values (column,) of one structure in a table of the user."""

    table: OwnTable
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StructureRecord:
    """One structure of a file, or the reason why it is refused.

    Parameters
    ----------
    id, file
        Id of the structure, and name or path of its file.
    format
        Name of the file format, "" if it was not recognised.
    atoms
        Positions and cell in Angstrom; None if and only if the structure is refused.
    problems
        Warnings, and reasons of a refusal.
    info
        Further values of the file: the key=value pairs of an extXYZ comment line (numbers as
        numbers, ids as text), other columns of a table, or the name of a CIF block.
    user_features
        The user's own features of the structure (`datasets.own_features`).
    """

    id: str
    file: str
    format: str  # such as "CIF" or "extXYZ"
    atoms: "Atoms | None"
    problems: tuple[Problem, ...] = ()
    info: Mapping[str, InfoValue] = field(default_factory=dict)
    user_features: OwnRow | None = None

    @property
    def status(self) -> Status:
        """Return the severity of the most severe problem, "ready" without problems."""
        severities = {problem.severity for problem in self.problems}
        return "refused" if "refused" in severities else "warning" if severities else "ready"

    @property
    def problem(self) -> str:
        """Return the problems' sentences, joined by "; "."""
        return "; ".join(problem.text for problem in self.problems)

    @property
    def verdict(self) -> str:
        """Return the verdict for the user: "ready", "usable: ..." or "refused: ..."."""
        verdicts = {
            "ready": "ready",
            "warning": f"usable: {self.problem}",
            "refused": f"refused: {self.problem}",
        }
        return verdicts[self.status]

    @property
    def formula(self) -> str:
        """Return the Hill formula, "" if the structure is refused."""
        return (
            "" if self.atoms is None else str(self.atoms.symbols.get_chemical_formula(mode="hill"))
        )

    @property
    def n_atoms(self) -> int:
        """Return the number of atoms (in the cell if periodic), 0 if the structure is refused."""
        return 0 if self.atoms is None else len(self.atoms)

    @property
    def periodic(self) -> bool:
        """Return whether the structure repeats in any direction."""
        return self.atoms is not None and bool(self.atoms.pbc.any())

    @property
    def content(self) -> str:
        """Return the SHA-256 digest (hexadecimal) of the geometry, "" if the structure is refused.

        The input is, in this order and as little-endian float64: atomic numbers (n,), positions
        (n, 3), cell (3, 3) and pbc (3,).
        """
        if self.atoms is None:
            return ""
        digest = hashlib.sha256()
        for array in (
            self.atoms.numbers,
            self.atoms.positions,
            self.atoms.cell.array,
            self.atoms.pbc,
        ):
            values = np.asarray(array, dtype="<f8") + 0.0  # the sum turns -0.0 into 0.0
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


def refused_record(id: str, file: str, text: str, *, form: str = "") -> StructureRecord:
    """Return the record of a file that gives no structure, with the reason."""
    return StructureRecord(printable(id), file, form, None, (Problem("refused", printable(text)),))


@dataclass
class Tally:
    """Number of records by status, and the first refused ones as (file, reason)."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[StructureRecord]) -> Self:
        """Return the tally of records."""
        tally = cls()
        for record in records:
            tally.add(record)
        return tally

    def add(self, record: StructureRecord) -> None:
        """Count one more record."""
        self.counts[record.status] += 1
        if record.status == "refused" and len(self.refused) < SHOWN:
            self.refused.append((record.file, record.problem))


class Records(Protocol):
    """Records that can be counted and iterated repeatedly: a list, or a file on disk."""

    def __len__(self) -> int:
        """Return the number of records."""

    def __iter__(self) -> Iterator[StructureRecord]:
        """Iterate over the records, always in the same order."""
