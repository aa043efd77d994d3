"""Filters of the structures of a data set as SQL, so that 100,000 rows stay quick."""

import re
from dataclasses import dataclass
from typing import Literal

from bandgap.foundation.errors import InputError

Status = Literal["ready", "warning", "refused"]

_SYMBOL = re.compile(r"[A-Z][a-z]?")


@dataclass(frozen=True)
class StructureFilter:
    """Conditions that a structure meets all of.

    Attributes
    ----------
    status
        Its verdict, None for any.
    search
        A text, not a pattern, in its id, file or formula; ignores case.
    elements
        Elements that it contains.
    gap_eV, n_atoms
        Smallest and largest gap in eV and number of atoms, both included, None for no bound. With a
        bound of the gap, structures without a gap are left out.
    """

    status: Status | None = None
    search: str = ""
    elements: tuple[str, ...] = ()
    gap_eV: tuple[float | None, float | None] = (None, None)
    n_atoms: tuple[int | None, int | None] = (None, None)

    def __post_init__(self) -> None:
        wrong = [symbol for symbol in self.elements if not _SYMBOL.fullmatch(symbol)]
        if wrong:
            raise InputError(f"element {wrong[0]!r}. Accepted: symbols such as O or Pb.")

    def condition(self, dataset_id: str) -> tuple[str, list[object]]:
        """Return the WHERE clause on the table `structure`, and its values."""
        where = ["dataset = ?"]
        values: list[object] = [dataset_id]
        if self.status is not None:
            where.append("status = ?")
            values.append(self.status)
        if self.search.strip():
            where.append(
                "instr(lower(id || char(10) || file || char(10) || formula), lower(?)) > 0"
            )
            values.append(self.search.strip())
        for symbol in self.elements:
            # GLOB distinguishes case: no lower-case letter may follow, so that C is not in Ca.
            where.append("formula || ' ' GLOB ?")
            values.append(f"*{symbol}[^a-z]*")
        for column, (lower, upper) in (("gap_eV", self.gap_eV), ("n_atoms", self.n_atoms)):
            if lower is not None:
                where.append(f"{column} >= ?")
                values.append(lower)
            if upper is not None:
                where.append(f"{column} <= ?")
                values.append(upper)
        return " AND ".join(where), values
