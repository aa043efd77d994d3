"""Parts and counts of data sets by SQL, so that a page reads only the structures that it shows."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.jobs.library import Library
from bandgap.jobs.rows import Verdict
from bandgap.jobs.structure_filter import StructureFilter
from bandgap.predictions.gap_distribution import enough_metals

_SYMBOL = re.compile(r"([A-Z][a-z]?)")
_VARIABLES = 500  # of one SQL statement; SQLite has a limit
_ORDER = "CASE status WHEN 'refused' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END"


def verdict_page(
    library: Library,
    dataset_id: str,
    conditions: StructureFilter = StructureFilter(),
    *,
    limit: int,
    offset: int = 0,
) -> tuple[list[tuple[int, Verdict]], int]:
    """Return one page of rows and verdicts, refused ones first, and the number of all matches."""
    condition, values = conditions.condition(dataset_id)
    with library.database.reading() as connection:
        (total,) = connection.execute(
            f"SELECT count(*) FROM structure WHERE {condition}", values
        ).fetchone()
        # the inner query sorts row numbers instead of rows
        rows = connection.execute(
            "SELECT structure.* FROM structure JOIN"
            f" (SELECT dataset AS d, row AS r, {_ORDER} AS o FROM structure WHERE {condition}"
            " ORDER BY o, r LIMIT ? OFFSET ?) ON dataset = d AND row = r ORDER BY o, r",
            (*values, limit, offset),
        ).fetchall()
    return [(int(row["row"]), Verdict.of(row)) for row in rows], total


@dataclass(frozen=True)
class ElementFigures:
    """Structures with an element that are not refused: their number, and the mean of their gaps.

    `mean_gap_eV` is None where no gap is known.
    """

    count: int
    mean_gap_eV: float | None


def element_figures(library: Library, dataset_id: str) -> dict[str, ElementFigures]:
    """Return the figures of each element of a data set."""
    rows = library.database.rows(
        "SELECT formula, count(*) AS n, count(gap_eV) AS n_gaps, total(gap_eV) AS gaps"
        " FROM structure WHERE dataset = ? AND status != 'refused' GROUP BY formula",
        dataset_id,
    )
    counts: Counter[str] = Counter()
    n_gaps: Counter[str] = Counter()
    sums: dict[str, float] = {}
    for row in rows:
        for symbol in set(_SYMBOL.findall(row["formula"])):
            counts[symbol] += row["n"]
            n_gaps[symbol] += row["n_gaps"]
            sums[symbol] = sums.get(symbol, 0.0) + row["gaps"]
    return {
        symbol: ElementFigures(count, sums[symbol] / n_gaps[symbol] if n_gaps[symbol] else None)
        for symbol, count in counts.most_common()
    }


def known_gaps(
    library: Library, dataset_id: str, elements: tuple[str, ...] = ()
) -> NDArray[np.float64]:
    """Return the known gaps (n,) in eV of structures that are not refused and have the elements."""
    condition, values = StructureFilter(elements=elements).condition(dataset_id)
    rows = library.database.rows(
        "SELECT gap_eV FROM structure"
        f" WHERE {condition} AND status != 'refused' AND gap_eV IS NOT NULL",
        *values,
    )
    return np.array([row[0] for row in rows], dtype=np.float64)


def element_sets(library: Library, dataset_id: str) -> dict[tuple[str, ...], int]:
    """Return the number of usable structures by their elements, which are in alphabetical order."""
    rows = library.database.rows(
        "SELECT formula, count(*) AS n FROM structure"
        " WHERE dataset = ? AND status != 'refused' AND gap_eV IS NOT NULL GROUP BY formula",
        dataset_id,
    )
    counts: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        counts[tuple(sorted(set(_SYMBOL.findall(row["formula"]))))] += row["n"]
    return dict(counts)


def has_metals(library: Library, dataset_id: str) -> bool:
    """Return whether the usable labels contain enough zeros for a probability of a metal."""
    counts = library.counts(dataset_id)
    return enough_metals(counts["metals"], counts["usable"])


def numbers_of(library: Library, dataset_id: str) -> dict[str, int]:
    """Return the names of numbers from files and tables, and how many structures have each."""
    rows = library.database.rows(
        "SELECT key, count(*) FROM structure, json_each(info)"
        " WHERE dataset = ? AND info != '{}' AND json_each.type != 'text' GROUP BY key",
        dataset_id,
    )
    return {str(key): int(count) for key, count in rows}


def other_numbers(library: Library, dataset_id: str) -> dict[str, int]:
    """Return `numbers_of` without those that are the known gaps themselves, in eV.

    The files from which labels were read have them. They are no baseline.
    """
    rows = library.database.rows(
        "SELECT key FROM structure, json_each(info)"
        " WHERE dataset = ? AND gap_eV IS NOT NULL AND info != '{}'"
        " GROUP BY key HAVING max(abs(json_each.value - gap_eV)) < 1e-6",
        dataset_id,
    )
    copies = {str(row["key"]) for row in rows}
    numbers = numbers_of(library, dataset_id)
    return {name: count for name, count in numbers.items() if name not in copies}


def rows_of_ids(library: Library, dataset_id: str, ids: Sequence[str]) -> dict[str, int]:
    """Return the rows of the usable structures of a data set that have one of these ids."""
    row_of_id: dict[str, int] = {}
    for start in range(0, len(ids), _VARIABLES):
        part = ids[start : start + _VARIABLES]
        rows = library.database.rows(
            "SELECT id, row FROM structure WHERE dataset = ? AND status != 'refused'"
            f" AND id IN ({', '.join('?' * len(part))})",
            dataset_id,
            *part,
        )
        row_of_id.update((str(row["id"]), int(row["row"])) for row in rows)
    return row_of_id


def labelled_rows(library: Library, dataset_id: str) -> NDArray[np.bool_]:
    """Return a mask (n,) of the structures of a data set that have a gap."""
    with library.database.reading() as connection:
        rows = connection.execute(
            "SELECT gap_eV IS NOT NULL FROM structure WHERE dataset = ? ORDER BY row", (dataset_id,)
        )
        return np.fromiter((row[0] for row in rows), dtype=bool)


def names_and_numbers(
    library: Library, dataset_id: str, name: str
) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """Return ids and files of the structures of a data set, and the number of this name of each.

    The numbers are (n,), NaN where a structure has none.
    """
    rows = library.database.rows(
        "SELECT id, file, json_extract(info, ?) FROM structure WHERE dataset = ? ORDER BY row",
        f'$."{name}"',
        dataset_id,
    )
    ids = [row[0] for row in rows]
    files = [row[1] for row in rows]
    numbers = [np.nan if row[2] is None else row[2] for row in rows]
    return ids, files, np.array(numbers, dtype=np.float64)


def row_of(library: Library, dataset_id: str, *, id: str, file: str) -> int | None:
    """Return the row of the structure of this id and file in a data set, None where there is none.

    Demo data and extended ids may have no such file; the id alone then decides if it is unique.
    """
    rows = library.database.rows(
        "SELECT row, file FROM structure WHERE dataset = ? AND id = ?", dataset_id, id
    )
    matching_rows = [int(row["row"]) for row in rows if row["file"] == file]
    if not matching_rows and len(rows) == 1:
        matching_rows = [int(rows[0]["row"])]
    return matching_rows[0] if matching_rows else None
