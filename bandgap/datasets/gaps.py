"""Units, limits and levels of theory of gaps, and gaps that structure files contain.

A level of theory is free text such as PBE or GW. This module does not import ASE, because the
dashboard's pages import it.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.units import TO_EV, Unit, unit_of_name
from bandgap.foundation.errors import InputError, listed, printable, quoted
from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.structures import StructureRecord
from bandgap.structures.records import InfoValue, Records

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

LEVEL_COLUMN = "level_of_theory"  # of a table or structure file: the level of its gaps
LARGEST_USUAL_GAP_EV = 20.0  # solids with larger gaps are those of helium and neon
_SHOWN = 5
_KEYS_SHOWN = 8


def labels_from_info(records: Records, key: str, *, unit: Unit | None = None) -> Floats:
    """Return the gaps in `info[key]` of the records.

    Parameters
    ----------
    records
        Structures.
    key
        Key of the gap, which may state its unit (gap_eV, gap_Ha).
    unit
        Unit of a key that states none.

    Returns
    -------
    ndarray
        Gaps (n,) in eV, NaN for records without the key.

    Raises
    ------
    InputError
        If no record has the key, if no unit or an unaccepted one is stated, or if a value is not a
        gap: text, a flag, negative, or more than 100 eV.
    """
    _check_key(records, key)
    remedy = " Or say which it is: `--unit eV` (on the page Data under Known gaps, Its unit)."
    stated = unit_of_name(key, unit, what="the key", remedy=remedy)
    return _numbers_of_key(records, key, unit=stated)


def baselines_from_info(records: Records, key: str) -> Floats:
    """Return the baselines (n,) in eV of a new run, as `labels_from_info` returns gaps.

    The key must state its unit.
    """
    _check_key(records, key)
    remedy = " Rename the key of the baseline, for example to gap_pbe_eV."
    return _numbers_of_key(
        records, key, unit=unit_of_name(key, None, what="the key", remedy=remedy)
    )


def gaps_from_numbers(
    ids: Sequence[str], values: Floats, *, unit: Unit | None, name: str
) -> Floats:
    """Return a number of the structure files as gaps in eV.

    Parameters
    ----------
    ids
        Ids of the structures, for messages.
    values
        Numbers (n,), NaN for a file without one.
    unit
        Unit if the name states none.
    name
        Name of the number, which may state its unit.

    Returns
    -------
    ndarray
        Gaps (n,) in eV.

    Raises
    ------
    InputError
        If no unit or an unaccepted one is stated, or if a value is negative or more than 100 eV.
    """
    unit = unit_of_name(name, unit, what="the number", remedy=" Or choose its unit.")
    gaps = np.asarray(values, dtype=np.float64) * TO_EV[unit]
    invalid = np.flatnonzero(~np.isnan(gaps) & ~((gaps >= 0.0) & (gaps <= LARGEST_GAP_EV)))
    if invalid.size:
        examples = listed([f"{ids[i]} ({values[i]:g})" for i in invalid.tolist()], _SHOWN)
        raise InputError(
            f"{name} in {unit} is not a band gap in {examples}. Accepted: 0 to"
            f" {LARGEST_GAP_EV:g} eV. Is it another quantity, or the wrong unit?"
        )
    return gaps


def large_gaps_warning(ids: Sequence[str], gaps_eV: Floats) -> str:
    """Return a warning that names gaps above 20 eV, "" without one.

    >>> large_gaps_warning(["Ne", "Si"], np.array([21.4, 1.1])).partition(":")[0]
    '1 gap is above 20 eV'
    """
    rows = np.flatnonzero(gaps_eV > LARGEST_USUAL_GAP_EV)
    if not rows.size:
        return ""
    examples = listed([f"{ids[i]} ({gaps_eV[i]:.4g} eV)" for i in rows.tolist()], _SHOWN)
    verb = "gap is" if rows.size == 1 else "gaps are"
    return (
        f"{rows.size:,} {verb} above {LARGEST_USUAL_GAP_EV:g} eV: {examples}. Of solids only"
        " those of helium and neon are as large. Is it another quantity, or the wrong unit?"
    )


def merged_gaps(
    present_eV: Floats, new_eV: Floats, *, levels: tuple[str, str]
) -> tuple[Floats, str, tuple[str, ...]]:
    """Merge new gaps into present ones.

    Parameters
    ----------
    present_eV, new_eV
        Gaps (n,), NaN for none. A new gap replaces the present one.
    levels
        Levels of theory of the present and of the new gaps.

    Returns
    -------
    gaps_eV, level, warnings
        Merged gaps (n,), their levels of theory joined by "; ", and warnings on mixed levels. The
        level of the present gaps counts only if one of them remains.
    """
    merged = np.where(np.isnan(new_eV), present_eV, new_eV)
    keeps_present = bool((np.isnan(new_eV) & ~np.isnan(present_eV)).any())
    stated_levels = [
        part for level in (levels if keeps_present else levels[1:]) for part in level.split(";")
    ]
    levels_of_gaps = distinct_levels(stated_levels)
    warnings = [mixed_levels_warning(levels_of_gaps)]
    if keeps_present and len(levels_of_gaps) == 1 and not all(level.strip() for level in levels):
        warnings.append(
            f"Some gaps are of {levels_of_gaps[0]}, the others state no level of theory. State it,"
            " to see mixed levels."
        )
    return merged, "; ".join(levels_of_gaps), tuple(filter(None, warnings))


def levels_of_records(records: Records) -> tuple[str, ...]:
    """Return the different levels of theory that structure files state for their gaps."""
    return distinct_levels(str(record.info.get(LEVEL_COLUMN, "")) for record in records)


def distinct_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return the different levels of theory in order, without empty ones.

    Levels that differ only in case and blanks are equal.
    """
    level_by_key: dict[str, str] = {}
    for level in levels:
        text = printable(" ".join(level.split()))
        if text:
            level_by_key.setdefault(text.casefold(), text)
    return tuple(level_by_key.values())


def mixed_levels_warning(levels: Iterable[str]) -> str:
    """Return a warning for gaps of more than one level of theory, otherwise ""."""
    names = distinct_levels(levels)
    if len(names) < 2:
        return ""
    return (
        f"Levels of theory are mixed ({', '.join(names)}). Gaps of different levels differ"
        " systematically, often by more than 1 eV; label one set at one level."
    )


def _check_key(records: Records, key: str) -> None:
    if not any(key in record.info for record in records):
        raise InputError(f"no structure has the key {key!r}. {_keys_found(records)}")


def _numbers_of_key(records: Records, key: str, *, unit: Unit) -> Floats:
    """Return the values (n,) of a key in eV. Raises InputError if one is not a gap."""
    gaps = np.full(len(records), np.nan)
    names_without_gap = []
    for i, record in enumerate(records):
        if _is_nan(record.info.get(key)):
            names_without_gap.append(record.id)
        elif key in record.info:
            gaps[i] = _gap(record, key) * TO_EV[unit]
            if not gaps[i] <= LARGEST_GAP_EV:
                raise InputError(
                    f"{_place(record)}: {key}={_quoted(record.info[key])} {unit} is not a band gap;"
                    " is the unit right?"
                )
    if names_without_gap:
        examples = ", ".join(names_without_gap[:_SHOWN])
        log.warning(
            "%s is NaN in %d structures, which have no gap: %s",
            key,
            len(names_without_gap),
            examples,
        )
    return gaps


def _is_nan(value: InfoValue | None) -> bool:
    """Return whether a value is NaN, which ASE writes where there is no gap."""
    if isinstance(value, str):
        return value.strip().lower() == "nan"
    return isinstance(value, float) and math.isnan(value)


def _gap(record: StructureRecord, key: str) -> float:
    value = record.info[key]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0.0):
        raise InputError(
            f"{_place(record)}: {key}={_quoted(value)} is not a band gap. "
            "Accepted: a number from 0; leave the key out where the gap is not known."
        )
    return number


def _quoted(value: InfoValue) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)


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
        return "No structure has a number in its comment line; give a CSV table of labels instead."
    keys = ", ".join(
        f"{printable(name)} ({count} of {len(records)})"
        for name, count in counts.most_common(_KEYS_SHOWN)
    )
    return f"Keys with numbers: {keys}."
