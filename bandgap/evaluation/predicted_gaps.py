"""The rows of a table of predictions with a known gap, and what does not fit together."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError, listed
from bandgap.structures.formula import formula_units, parse_formula
from bandgap.structures.records import StructureRecord

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

TOLERANCE_EV = 1e-5  # of a mean outside its interval: tables have six decimals
SHOWN = 3


def rows_with_gaps(
    table: "pd.DataFrame", records: Sequence[StructureRecord], gaps_eV: Floats
) -> tuple["pd.DataFrame", Floats, list[str]]:
    """Return the rows (k,) with a prediction and a known gap, these gaps in eV, and sentences.

    A row is that of the structure with its id and file, or else of the only one with its id. A row
    with another formula than the structure is left out.

    Parameters
    ----------
    table
        Predictions, as `read_predictions` returns them.
    records, gaps_eV
        Structures and their gaps (n,) in eV, NaN where there is none.

    Raises
    ------
    InputError
        Where several rows are of one structure, and where no row has both.
    """
    number_by_name = {(record.file, record.id): i for i, record in enumerate(records)}
    counts = Counter(record.id for record in records)
    number_by_id = {record.id: i for i, record in enumerate(records) if counts[record.id] == 1}
    numbers = np.array(
        [
            number_by_name.get((file, id_), number_by_id.get(id_, -1))
            for file, id_ in zip(table["file"], table["id"], strict=True)
        ]
    )
    rows_of = Counter(numbers[numbers >= 0].tolist())
    if repeated := [records[i].id for i, n in rows_of.items() if n > 1]:
        raise InputError(
            f"structures with several rows: {len(repeated):,} ({listed(repeated, SHOWN)}). Were two"
            " tables put together? Give one row for each structure."
        )
    is_predicted = np.isfinite(table["mean_eV"].to_numpy(dtype=float))
    usable = np.flatnonzero((numbers >= 0) & is_predicted & np.isfinite(gaps_eV[numbers]))
    differing = [
        i for i in usable if not _has_formula(records[numbers[i]], str(table["formula"].iloc[i]))
    ]
    sentences = []
    if differing:
        examples = [
            f"{table['id'].iloc[i]} is {table['formula'].iloc[i]} in the table and"
            f" {records[numbers[i]].formula} here"
            for i in differing
        ]
        sentences.append(
            f"Left out, because the prediction with the id is of another formula: "
            f"{len(differing):,} of {usable.size:,} ({listed(examples, SHOWN)}). Are these the ids"
            " of the predicted structures?"
        )
        usable = np.setdiff1d(usable, differing)
    if not usable.size:
        raise InputError(
            " ".join(
                [
                    "no row has both a prediction and a known gap. The ids must be those of the"
                    " structures.",
                    *sentences,
                ]
            )
        )
    without_row = np.setdiff1d(np.flatnonzero(np.isfinite(gaps_eV)), numbers[is_predicted])
    if without_row.size:
        ids = [records[i].id for i in without_row]
        sentences.append(f"Known gaps without a prediction: {len(ids):,} ({listed(ids, SHOWN)}).")
    rows = table.iloc[usable]
    if outside := _outside_their_intervals(rows):
        sentences.append(
            f"Means outside of their own intervals: {len(outside):,} ({listed(outside, SHOWN)})."
            " Was the table changed?"
        )
    return rows, gaps_eV[numbers[usable]], sentences


def _has_formula(record: StructureRecord, formula: str) -> bool:
    """Return whether a structure has a formula, or a multiple of it as in another cell."""
    counts = parse_formula(formula)
    return (
        record.atoms is None
        or not counts
        or formula_units(record.atoms.symbols, counts) is not None
    )


def _outside_their_intervals(rows: "pd.DataFrame") -> list[str]:
    """Return the ids of rows whose mean, cut at zero, is outside of the interval.

    With a probability of zero, as for metals, the mean may lie above the interval.
    """
    means = np.maximum(rows["mean_eV"].to_numpy(dtype=float), 0.0)
    is_below = means < rows["lower_eV"].to_numpy(dtype=float) - TOLERANCE_EV
    is_above = means > rows["upper_eV"].to_numpy(dtype=float) + TOLERANCE_EV
    if "p_metal" in rows:
        is_above[:] = False
    return [str(id_) for id_ in rows["id"][is_below | is_above]]
