"""Check a labelled set that a user made in Python, before anything is learned from it."""

import dataclasses

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
    arrays = {"gaps_eV": data.gaps_eV}
    if data.baseline_eV is not None:
        arrays["baseline_eV"] = data.baseline_eV
    checked = {}
    for name, values in arrays.items():
        numbers = as_numbers(values, name=name)
        if len(numbers) != len(records):
            what = "gaps" if name == "gaps_eV" else "baselines"
            raise InputError(
                f"{len(records)} structures but {len(numbers)} {what}: one"
                f" {what.removesuffix('s')} (or NaN) for each is expected."
            )
        checked[name] = gaps_from_numbers(ids, numbers, unit="eV", name=name)
    if not isinstance(data.level_of_theory, str):
        raise InputError(
            f"level_of_theory: found {data.level_of_theory!r}. Accepted: a text such as PBE."
        )
    return dataclasses.replace(data, records=records, **checked)
