"""Gaps and what they are of: units, limits, levels of theory, and gaps that structure files hold themselves.

A level of theory is free text such as PBE or GW that travels with gaps. Loads no ASE, as pages read it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError, printable, shown
from bandgap.structures import StructureRecord
from bandgap.structures.records import InfoValue, Records

Unit = Literal["eV", "Hartree"]
Floats = NDArray[np.float64]

EV_PER_HARTREE = 27.211386245988  # CODATA 2018
LARGEST_GAP_EV = 100.0  # several times the gap of solid helium or neon: beyond it, the unit is wrong
TO_EV: dict[Unit, float] = {"eV": 1.0, "Hartree": EV_PER_HARTREE}
_SHOWN, _KEYS_SHOWN = 5, 8


def labels_from_info(records: Records, key: str, *, unit: Unit = "eV") -> Floats:
    """Return the gaps in eV (n,) that `info[key]` holds in `unit`, NaN for records without the key.

    Raises InputError when no record has the key (naming the keys that there are), and when a value is no gap: text, a
    flag, negative, or larger than 100 eV.
    """
    if unit not in TO_EV:
        raise InputError(f"unit is {unit!r}. Accepted: {', '.join(TO_EV)}.")
    if not any(key in record.info for record in records):
        raise InputError(f"no structure has the key {key!r}. {_keys_found(records)}")
    gaps = np.full(len(records), np.nan)
    for i, record in enumerate(records):
        if key in record.info:
            gaps[i] = _gap(record, key) * TO_EV[unit]
            if not gaps[i] <= LARGEST_GAP_EV:
                raise InputError(
                    f"{_place(record)}: {key}={_shown(record.info[key])} {unit} is no band gap; is the unit right?"
                )
    return gaps


def gaps_from_numbers(ids: Sequence[str], values: Floats, *, unit: Unit, name: str) -> Floats:
    """Return values (n,) of the files' number `name` in `unit` as gaps in eV; NaN where a file gives none.

    Raises InputError when a value is no gap: negative, or larger than 100 eV.
    """
    gaps = np.asarray(values, dtype=np.float64) * TO_EV[unit]
    wrong = np.flatnonzero(~np.isnan(gaps) & ~((gaps >= 0.0) & (gaps <= LARGEST_GAP_EV)))
    if wrong.size:
        shown = ", ".join(f"{ids[i]} ({values[i]:g})" for i in wrong[:_SHOWN])
        more = f" and {wrong.size - _SHOWN:,} more" if wrong.size > _SHOWN else ""
        raise InputError(
            f"{name} in {unit} is not a band gap in {shown}{more}. Accepted: 0 to {LARGEST_GAP_EV:g} eV. "
            "Is it another quantity, or the wrong unit?"
        )
    return gaps


def merged_gaps(present_eV: Floats, new_eV: Floats, *, levels: tuple[str, str]) -> tuple[Floats, str, tuple[str, ...]]:
    """Return the new gaps (n,) with the present ones where there is no new one, their level of theory, and warnings.

    `levels` are those of the present and of the new gaps; a level counts only when one of its gaps is kept.
    """
    merged = np.where(np.isnan(new_eV), present_eV, new_eV)
    kept = bool((np.isnan(new_eV) & ~np.isnan(present_eV)).any())
    stated = [part for level in (levels if kept else levels[1:]) for part in level.split(";")]
    found = distinct_levels(stated)
    warnings = [mixed_levels_warning(found)]
    if kept and len(found) == 1 and not all(level.strip() for level in levels):
        warnings.append(
            f"Some gaps are of {found[0]}, the others state no level of theory. State it, to see mixed levels."
        )
    return merged, "; ".join(found), tuple(filter(None, warnings))


def distinct_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return the levels of theory that differ in more than case and blanks, in order; empty ones are left out."""
    seen: dict[str, str] = {}
    for level in levels:
        words = printable(" ".join(level.split()))
        if words:
            seen.setdefault(words.casefold(), words)
    return tuple(seen.values())


def mixed_levels_warning(levels: Iterable[str]) -> str:
    """Return the warning for gaps of more than one level of theory, or "" where they all agree or state none."""
    names = distinct_levels(levels)
    if len(names) < 2:
        return ""
    return (
        f"Levels of theory are mixed ({', '.join(names)}). Gaps of different levels differ systematically, often by "
        "more than 1 eV; label one set at one level."
    )


def _gap(record: StructureRecord, key: str) -> float:
    value = record.info[key]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0.0):
        raise InputError(
            f"{_place(record)}: {key}={_shown(value)} is not a band gap. Accepted: a number from 0; leave the key out "
            "where the gap is not known."
        )
    return number


def _shown(value: InfoValue) -> str:
    return shown(value) if isinstance(value, str) else repr(value)


def _place(record: StructureRecord) -> str:
    return f"{record.file}, {record.id}" if record.file else record.id


def _keys_found(records: Records) -> str:
    counts = Counter(
        name
        for record in records
        for name, value in record.info.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    )
    if not counts:
        return "No structure carries a number in its comment line; give a CSV table of labels instead."
    shown = ", ".join(f"{name} ({count} of {len(records)})" for name, count in counts.most_common(_KEYS_SHOWN))
    return f"Keys with numbers: {shown}."
