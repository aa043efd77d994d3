"""Numbers of records by status, and the reasons of the first refusals."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from bandgap.structures.records import StructureRecord

SHOWN = 3  # number of refused structures whose reasons a tally keeps


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
