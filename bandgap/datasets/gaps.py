"""Gaps and what they are of: units, limits, levels of theory, and gaps that structure files hold themselves.

A level of theory is free text such as PBE or GW that travels with gaps. Loads no ASE, as pages read it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.units import TO_EV, Unit, unit_in_name, unit_of_name
from bandgap.foundation.errors import InputError, printable, shown
from bandgap.structures import StructureRecord
from bandgap.structures.records import InfoValue, Records

Floats = NDArray[np.float64]

LARGEST_GAP_EV = 100.0  # several times the gap of solid helium or neon: beyond it, the unit is wrong
_SHOWN, _KEYS_SHOWN = 5, 8


def labels_from_info(records: Records, key: str, *, unit: Unit | None = None) -> Floats:
    """Return the gaps in eV (n,) that `info[key]` holds, NaN for records without the key.

    The key states their unit (gap_eV, gap_Ha), or `unit` does where it states none. Raises InputError when no record
    has the key (naming the keys that there are), when no unit or another one is stated, and when a value is no gap:
    text, a flag, negative, or larger than 100 eV.
    """
    _check_key(records, key)
    stated = unit_of_name(key, unit, what="the key", remedy=" Or say which it is: `--unit eV`.")
    return _numbers_of_key(records, key, unit=stated)


def baselines_from_info(records: Records, key: str) -> Floats:
    """Return the baselines in eV (n,) of a new run, as `labels_from_info` returns gaps; the key must state the unit."""
    _check_key(records, key)
    remedy = " Rename the key of the baseline, for example to gap_pbe_eV."
    return _numbers_of_key(records, key, unit=unit_of_name(key, None, what="the key", remedy=remedy))


def baselines_of_run(records: Records, key: str) -> Floats:
    """Return the baselines in eV (n,) that a stored run asks for, as `labels_from_info` returns gaps.

    A key without a unit is in eV: a run that learned from such a key was made by an earlier version, which took it so.
    """
    _check_key(records, key)
    return _numbers_of_key(records, key, unit=unit_of_run_baseline(key))


def unit_of_run_baseline(name: str) -> Unit:
    """Return the unit of the baseline of a stored run; see `baselines_of_run`. Raises InputError on another unit."""
    return unit_in_name(name, what="the baseline") or "eV"


def gaps_from_numbers(ids: Sequence[str], values: Floats, *, unit: Unit | None, name: str) -> Floats:
    """Return values (n,) of the files' number `name` as gaps in eV; NaN where a file gives none.

    The name states their unit, or `unit` does where it states none. Raises InputError when no unit or another one is
    stated, and when a value is no gap: negative, or larger than 100 eV.
    """
    unit = unit_of_name(name, unit, what="the number", remedy=" Or choose its unit.")
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


def _check_key(records: Records, key: str) -> None:
    if not any(key in record.info for record in records):
        raise InputError(f"no structure has the key {key!r}. {_keys_found(records)}")


def _numbers_of_key(records: Records, key: str, *, unit: Unit) -> Floats:
    """Return the values of a key in eV (n,), NaN for records without it; raises InputError when one is no gap."""
    gaps = np.full(len(records), np.nan)
    for i, record in enumerate(records):
        if key in record.info:
            gaps[i] = _gap(record, key) * TO_EV[unit]
            if not gaps[i] <= LARGEST_GAP_EV:
                raise InputError(
                    f"{_place(record)}: {key}={_shown(record.info[key])} {unit} is no band gap; is the unit right?"
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
