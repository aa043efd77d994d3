"""Ids of their own for all structures of an input: the second of two equal ones gets a number."""

import dataclasses
import re
from collections.abc import Iterable

from bandgap.structures.records import Problem, StructureRecord


class DoubleIds:
    """Looks for ids that were there before, one id after the other; holds all of them, about 110 bytes each."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.n = 0  # ids that were looked at
        self._seen: set[str] = set()
        self._again: list[tuple[int, str]] = []
        for id in ids:
            self.add(id)

    @property
    def found(self) -> bool:
        """Whether an id came twice."""
        return bool(self._again)

    def add(self, id: str) -> None:
        """Look at the next id."""
        if id in self._seen:
            self._again.append((self.n, id))
        else:
            self._seen.add(id)
        self.n += 1

    def new_ids(self) -> dict[int, str]:
        """Return an id for every place whose id was there before, which none has; ask once all are looked at."""
        given, latest, new = set[str](), dict[str, int](), dict[int, str]()
        for place, id in self._again:
            count = latest.get(id, 1) + 1
            while (new_id := f"{id}-{count}") in self._seen or new_id in given:
                count += 1
            latest[id] = count
            new[place] = new_id
            given.add(new_id)
        return new


def renamed(record: StructureRecord, id: str) -> StructureRecord:
    """Return the record with a new id; its own stays in info["original_id"], and a warning tells."""
    warning = Problem("warning", f"the id {record.id} is there more than once; this one is called {id}")
    info = {**record.info, "original_id": record.id}
    return dataclasses.replace(record, id=id, problems=(*record.problems, warning), info=info)


def without_renaming(problem: str, id: str) -> str:
    """Return a record's problem without what `renamed` said when it gave the record this id."""
    renaming = rf"the id .*? is there more than once; this one is called {re.escape(id)}(?=; |$)"
    return re.sub(rf"^{renaming}(; )?|; {renaming}", "", problem)


def with_unique_ids(records: list[StructureRecord]) -> list[StructureRecord]:
    """Give the second of two equal ids a number, as `renamed` tells."""
    new = DoubleIds(record.id for record in records).new_ids()
    return [renamed(record, new[place]) if place in new else record for place, record in enumerate(records)]
