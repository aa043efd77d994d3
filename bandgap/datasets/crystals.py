"""Known band gaps that travel with the structures: a key in the comment line of extended XYZ."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.labels import EV_PER_HARTREE, LARGEST_GAP_EV, Unit
from bandgap.foundation.errors import InputError
from bandgap.structures import StructureRecord

_SHOWN = 8


def labels_from_info(records: Sequence[StructureRecord], key: str, *, unit: Unit = "eV") -> NDArray[np.float64]:
    """Return the gaps in eV (n,) that `info[key]` holds in `unit`, NaN for records without the key.

    Raises InputError when no record has the key (naming the keys that there are), and when a value is no gap: text, a
    flag, negative, or larger than 100 eV.
    """
    scales = {"eV": 1.0, "Hartree": EV_PER_HARTREE}
    if unit not in scales:
        raise InputError(f"unit is {unit!r}. Accepted: {', '.join(scales)}.")
    if not any(key in record.info for record in records):
        raise InputError(f"no structure has the key {key!r}. {_keys_found(records)}")
    gaps = np.full(len(records), np.nan)
    for i, record in enumerate(records):
        if key in record.info:
            gaps[i] = _gap(record, key) * scales[unit]
            if not gaps[i] <= LARGEST_GAP_EV:
                raise InputError(
                    f"{_place(record)}: {key}={record.info[key]!r} {unit} is no band gap; is the unit right?"
                )
    return gaps


def _gap(record: StructureRecord, key: str) -> float:
    value = record.info[key]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0.0):
        raise InputError(
            f"{_place(record)}: {key}={value!r} is not a band gap. Accepted: a number from 0; leave the key out "
            "where the gap is not known."
        )
    return number


def _place(record: StructureRecord) -> str:
    return f"{record.file}, {record.id}" if record.file else record.id


def _keys_found(records: Sequence[StructureRecord]) -> str:
    counts = Counter(
        name
        for record in records
        for name, value in record.info.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    )
    if not counts:
        return "No structure carries a number in its comment line; give a CSV table of labels instead."
    shown = ", ".join(f"{name} ({count} of {len(records)})" for name, count in counts.most_common(_SHOWN))
    return f"Keys with numbers: {shown}."
