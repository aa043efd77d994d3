"""A table of gaps that is uploaded together with the structures: the check stores its gaps.

The rows of the table travel in the payload of the job, as those of a baseline do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bandgap.datasets.labels import Labels, match_labels, other_gaps, read_labels
from bandgap.foundation.children import in_child
from bandgap.foundation.errors import InputError
from bandgap.structures.formats.csv_table import FORMAT as STRUCTURES

if TYPE_CHECKING:
    from bandgap.datasets.matching import Matched
    from bandgap.datasets.units import Unit
    from bandgap.jobs.library import Library
    from bandgap.jobs.rows import Verdict

TABLE_SUFFIXES = (".csv", ".tsv")
MAX_NAMES = 1_000  # names of unmatched rows that are stored
MAX_ROWS = 200_000
_SMALL_BYTES = 100_000  # tables that are read at once
_SECONDS = 60  # CPU time for a larger table; 200,000 rows take 10 s
_MEMORY_BYTES = 2_000_000_000


def is_gap_table(name: str, content: bytes) -> bool:
    """Return whether a file is a table that the reader of structures does not take for its own."""
    if not name.lower().endswith(TABLE_SUFFIXES):
        return False
    text = content.decode("utf-8-sig", errors="replace")
    return not all(pattern.search(text) for pattern in STRUCTURES.patterns)


def gaps_payload(
    content: bytes,
    *,
    name: str,
    unit: Unit | None = None,
    column: str | None = None,
    id_column: str | None = None,
    level_of_theory: str = "",
) -> dict[str, Any]:
    """Return the rows of a table of gaps, and of its other gap columns, for the payload of a job.

    The parameters are those of `read_labels`. Raises InputError where the table cannot be read.
    """
    labels = read_labels(
        content,
        name=name,
        unit=unit,
        column=column,
        id_column=id_column,
        level_of_theory=level_of_theory,
    )
    other_labels = other_gaps(content, gap_column=labels.column, id_column=id_column, name=name)
    return {
        "table": _to_json(labels),
        "other_columns": {
            header: _to_json(column_labels) for header, column_labels in other_labels.items()
        },
    }


def uploaded_payload(content: bytes, *, name: str, **settings: str | None) -> dict[str, Any]:
    """Return the result of `gaps_payload` for an upload, which is read in a child process if large.

    Raises InputError also for more than `MAX_ROWS` rows.
    """
    if max(map(content.count, (b"\n", b"\r"))) > MAX_ROWS + 1:
        raise InputError(
            f"{name}: more than {MAX_ROWS:,} rows, the limit. Leave out rows without a structure."
        )
    if len(content) <= _SMALL_BYTES:
        return gaps_payload(content, name=name, **settings)  # type: ignore[arg-type]
    payload: dict[str, Any]
    (payload,) = in_child(
        _payload_item, content, seconds=_SECONDS, n_bytes=_MEMORY_BYTES, name=name, **settings
    )
    return payload


def _payload_item(content: bytes, **arguments: Any) -> list[dict[str, Any]]:
    return [gaps_payload(content, **arguments)]


@dataclass(frozen=True, eq=False)
class MatchedTable:
    """A table of gaps and what of it matches the structures of a data set.

    `other_matches` are those of its other gap columns, by header.
    """

    labels: Labels
    match: Matched
    other_matches: dict[str, Matched]
    verdicts: list[Verdict]

    def store_columns(self, library: Library, dataset_id: str) -> dict[str, Any]:
        """Store the other gap columns, and return the facts of the table for `save_gaps`."""
        for header, other in self.other_matches.items():
            library.save_numbers(dataset_id, header, other.gaps)
        return {
            **label_facts(self.labels, self.match),
            "beside": {header: other.n_matched for header, other in self.other_matches.items()},
            "matched": self.match.n_matched,
        }


def match_table(library: Library, dataset_id: str, payload: Mapping[str, Any]) -> MatchedTable:
    """Match the rows of a payload to the checked structures of a data set."""
    labels = _from_json(payload["table"])
    verdicts = library.verdicts(dataset_id)
    ids = [verdict.id for verdict in verdicts]
    files = [verdict.file for verdict in verdicts]
    other_matches = {
        header: match_labels(ids, files, _from_json(rows))
        for header, rows in payload["other_columns"].items()
    }
    return MatchedTable(labels, match_labels(ids, files, labels), other_matches, verdicts)


def store_gaps(library: Library, dataset_id: str, payload: Mapping[str, Any]) -> int:
    """Match the rows of a payload to the checked structures of a data set, and store their gaps.

    Returns the number of structures that got a gap.
    """
    table = match_table(library, dataset_id, payload)
    facts = table.store_columns(library, dataset_id)
    level = table.labels.level_of_theory
    library.save_gaps(dataset_id, table.match.gaps, labels=facts, level_of_theory=level)
    return table.match.n_matched


def label_facts(labels: Labels, match: Matched) -> dict[str, Any]:
    """Return what a data set stores of its table: source, messages, and names without a partner."""
    unmatched = list(match.unmatched_labels[:MAX_NAMES])
    gap_by_name = {
        name: gap
        for names in (*labels.other_ids, labels.files, labels.ids)
        for name, gap in zip(names, labels.gaps_eV.tolist(), strict=False)
    }
    has_gaps = all(name in gap_by_name for name in unmatched)
    return {
        "source": labels.source,
        "problems": [*labels.problems, *match.problems],
        "n_unmatched_labels": len(match.unmatched_labels),
        "unmatched_labels": unmatched,
        "unmatched_gaps_eV": [gap_by_name[name] for name in unmatched] if has_gaps else None,
        "n_unmatched_structures": len(match.unmatched_structures),
        "unmatched_structures": list(match.unmatched_structures[:MAX_NAMES]),
    }


def _to_json(labels: Labels) -> dict[str, Any]:
    return {**vars(labels), "gaps_eV": labels.gaps_eV.tolist()}


def _from_json(values: Mapping[str, Any]) -> Labels:
    columns = {name: tuple(values[name]) for name in ("ids", "files", "problems")}
    columns["other_ids"] = tuple(map(tuple, values.get("other_ids", ())))
    gaps = np.array(values["gaps_eV"], dtype=np.float64)
    return Labels(**{**values, **columns, "gaps_eV": gaps})
