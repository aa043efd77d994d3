"""A table of gaps that is uploaded together with the structures: the check stores its gaps.

The rows of the table travel in the payload of the job, as those of a baseline do.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    payload: dict[str, Any] = in_child(
        gaps_payload, content, seconds=_SECONDS, n_bytes=_MEMORY_BYTES, name=name, **settings
    )
    return payload


def labels_of(payload: Mapping[str, Any]) -> tuple[Labels, dict[str, Labels]]:
    """Return the gaps of a payload, and its other gap columns by header."""
    other_labels = {header: _from_json(rows) for header, rows in payload["other_columns"].items()}
    return _from_json(payload["table"]), other_labels


def store_gaps(library: Library, dataset_id: str, payload: Mapping[str, Any]) -> int:
    """Match the rows of a payload to the checked structures of a data set, and store their gaps.

    Returns the number of structures that got a gap.
    """
    labels, other_labels = labels_of(payload)
    verdicts = library.verdicts(dataset_id)
    ids = [verdict.id for verdict in verdicts]
    files = [verdict.file for verdict in verdicts]
    match = match_labels(ids, files, labels)
    n_by_column = {}
    for header, column_labels in other_labels.items():
        other = match_labels(ids, files, column_labels)
        library.save_numbers(dataset_id, header, other.gaps)
        n_by_column[header] = other.n_matched
    facts = {**label_facts(labels, match), "beside": n_by_column, "matched": match.n_matched}
    library.save_gaps(dataset_id, match.gaps, labels=facts, level_of_theory=labels.level_of_theory)
    return match.n_matched


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
