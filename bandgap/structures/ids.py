"""Find the id that a file states for a structure, and make the ids of an input unique."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bandgap.structures.records import Problem, StructureRecord

# Keys and headers that name a structure, without case and punctuation; the first one counts.
ID_KEYS = (
    *("id", "structureid", "identifier", "materialid", "matid", "jid", "qmofid", "mpid"),
    *("refcode", "auid", "uid", "entryid", "taskid", "codid", "csdid", "icsdid", "oqmdid"),
    *("structure", "name", "key", "uniqueid"),
)
_NO_IDS = {"", "nan", "none", "null"}


def stated_id(fields: Mapping[str, object]) -> str:
    """Return the id among the values of a structure, "" if there is none.

    An id is a text, a whole number, or an object with the text as `string`, as monty writes it.
    """
    texts = {_plain(key): _id_text(value) for key, value in fields.items()}
    return next((texts[key] for key in ID_KEYS if texts.get(key)), "")


def is_id(key: str) -> bool:
    """Return whether the values of a key are ids, which stay text: 00011 is not 11."""
    return _plain(key) in ID_KEYS or key.lower().endswith("_id")


@lru_cache(maxsize=4096)
def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _id_text(value: object) -> str:
    if isinstance(value, Mapping):
        value = value.get("string")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_text = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value).strip() if is_text else ""
    return "" if text.lower() in _NO_IDS else text


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
