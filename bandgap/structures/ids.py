"""Make the ids of all structures of an input unique: a repeated id gets a number."""

import dataclasses
import re
from collections.abc import Iterable

from bandgap.structures.records import Problem, StructureRecord


class RepeatedIds:
    """Find repeated ids in a sequence that is read once.

    All ids are kept in memory, with about 110 bytes each.
    """

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.n = 0  # number of ids so far
        self._earlier_ids: set[str] = set()
        self._repeats: list[tuple[int, str]] = []
        for id in ids:
            self.add(id)

    @property
    def has_repeats(self) -> bool:
        """Whether an id has occurred twice."""
        return bool(self._repeats)

    def add(self, id: str) -> None:
        """Add the next id."""
        if id in self._earlier_ids:
            self._repeats.append((self.n, id))
        else:
            self._earlier_ids.add(id)
        self.n += 1

    def new_ids(self) -> dict[int, str]:
        """Return a new unique id for the index of every repeated id.

        Call this after all ids were added.
        """
        new_ids: dict[int, str] = {}
        used: set[str] = set()
        last_count: dict[str, int] = {}
        for index, id in self._repeats:
            count = last_count.get(id, 1) + 1
            while (new_id := f"{id}-{count}") in self._earlier_ids or new_id in used:
                count += 1
            last_count[id] = count
            new_ids[index] = new_id
            used.add(new_id)
        return new_ids


def with_new_id(record: StructureRecord, id: str) -> StructureRecord:
    """Return the record with a new id, a warning, and the old id in info["original_id"]."""
    warning = Problem("warning", f"the id {record.id} is not unique; this structure is called {id}")
    info = {**record.info, "original_id": record.id}
    return dataclasses.replace(record, id=id, problems=(*record.problems, warning), info=info)


def without_renaming(problem: str, id: str) -> str:
    """Return a record's problems without the warning that `with_new_id` added with this id."""
    renaming = rf"the id .*? is not unique; this structure is called {re.escape(id)}(?=; |$)"
    return re.sub(rf"^{renaming}(; )?|; {renaming}", "", problem)


def with_unique_ids(records: list[StructureRecord]) -> list[StructureRecord]:
    """Return the records with unique ids; a repeated id gets a number (see `with_new_id`)."""
    new_ids = RepeatedIds(record.id for record in records).new_ids()
    return [
        with_new_id(record, new_ids[index]) if index in new_ids else record
        for index, record in enumerate(records)
    ]
