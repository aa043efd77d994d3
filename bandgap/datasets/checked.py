"""Check a labelled set that a user made in Python, before anything is learned from it."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.gaps import gaps_from_numbers
from bandgap.datasets.table import LabelledSet
from bandgap.foundation.arguments import as_numbers, check_type
from bandgap.foundation.errors import InputError
from bandgap.structures import as_records


def checked_set(data: LabelledSet) -> LabelledSet:
    """Return a labelled set with records and float64 arrays.

    Raises InputError for structures of a kind that `as_records` does not take, for another number
    of gaps than of structures, and for a gap or baseline outside 0 to 100 eV that is not NaN.
    """
    check_type(data, LabelledSet, name="data")
    records = as_records(data.records)
    ids = [record.id for record in records]
    gaps_eV = _checked_gaps(data.gaps_eV, ids, what="gap", name="gaps_eV")
    baseline_eV = None
    if data.baseline_eV is not None:
        baseline_eV = _checked_gaps(data.baseline_eV, ids, what="baseline", name="baseline_eV")
    if not isinstance(data.level_of_theory, str):
        raise InputError(
            f"level_of_theory: found {data.level_of_theory!r}. Accepted: a text such as PBE."
        )
    return dataclasses.replace(data, records=records, gaps_eV=gaps_eV, baseline_eV=baseline_eV)


def _checked_gaps(values: object, ids: list[str], *, what: str, name: str) -> NDArray[np.float64]:
    numbers = as_numbers(values, name=name)
    if len(numbers) != len(ids):
        raise InputError(
            f"{len(ids)} structures but {len(numbers)} {what}s: one {what} (or NaN) for each is"
            " expected."
        )
    return gaps_from_numbers(ids, numbers, unit="eV", name=name)
