"""Measured errors of methods on kinds of crystals, from which methods are proposed.

The table measured_errors.csv is in this folder. `python -m benchmarks crystals --table FILE` and
`python -m benchmarks metals --table FILE` write its rows; others were recorded with `bandgap
compare`. Each row has its date and command. Imports no torch.
"""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args

from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.foundation.errors import InputError

CrystalKind = Literal[
    "molecular crystals with tight-binding gaps",
    "PBE gaps of organic crystals, described by their molecules",
    "lead-iodide perovskites with hybrid gaps",
    "inorganic crystals with carbon and hydrogen, PBE",
    "crystals of any elements, PBE",
    "crystals of any elements, measured gaps",
    "inorganic perovskites with metals among them, GLLB-SC",
]

# Standard deviation of the gaps of each kind in eV, the RMSE of their mean gap (2026-11-29).
MEAN_GAP_RMSE_EV: Final[Mapping[CrystalKind, float]] = {
    "molecular crystals with tight-binding gaps": 0.75,
    "PBE gaps of organic crystals, described by their molecules": 0.95,
    "lead-iodide perovskites with hybrid gaps": 0.37,
    "inorganic crystals with carbon and hydrogen, PBE": 1.42,
    "crystals of any elements, PBE": 1.63,
    "crystals of any elements, measured gaps": 1.75,
    "inorganic perovskites with metals among them, GLLB-SC": 1.13,
}
TABLE: Final = Path(__file__).with_name("measured_errors.csv")
NO_SOURCE: Final = "none"
# Methods of which one is proposed, where they were measured.
CANDIDATES: Final = ("btl_pcp_pe", "feature_gp", "stacking")


@dataclass(frozen=True)
class MeasuredError:
    """The error of a method on held-out crystals of a kind: one row of the table.

    Parameters
    ----------
    kind, n, n_test
        The kind of crystals, the number learned from, and that held out.
    splits
        Number of splits.
    source, extras, levels, method
        Source model, optional packages, electron levels and method.
    rmse_eV, standard_error_eV
        Mean root mean square error over the splits, and its standard error, "" where it is unknown.
    lowest_eV, highest_eV
        Range over the splits where the mean was not recorded, else "". `rmse_eV` is then its
        middle.
    date, command
        When and how it was measured.
    """

    kind: CrystalKind
    n: int
    n_test: int
    splits: str
    source: str
    extras: str
    levels: ElectronLevels
    method: str
    rmse_eV: float
    standard_error_eV: str
    lowest_eV: str
    highest_eV: str
    date: str
    command: str

    @property
    def text(self) -> str:
        """The error in words, such as "0.18 eV" or "0.38 to 0.40 eV"."""
        if self.lowest_eV and self.lowest_eV != self.highest_eV:
            return f"{float(self.lowest_eV):.2f} to {float(self.highest_eV):.2f} eV"
        return f"{self.rmse_eV:.2f} eV"

    @property
    def conditions(self) -> str:
        """Numbers of crystals and packages, such as "100 labelled, 103 held out, with chgnet"."""
        packages = f", with {' and '.join(self.extras.split())}" if self.extras else ""
        return f"{self.n} labelled, {self.n_test} held out{packages}"

    def measured_with(self, other: "MeasuredError") -> bool:
        """Whether another error is of the same splits, so that both can be compared."""
        names = ("kind", "n", "n_test", "splits", "date", "command")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def differs_by_potentials_from(self, other: "MeasuredError") -> bool:
        """Whether another error is of the same splits and method, with other potentials."""
        names = ("kind", "n", "n_test", "splits", "source", "levels", "method", "date")
        return (
            all(getattr(self, name) == getattr(other, name) for name in names)
            and self.extras != other.extras
            and _without_potentials(self.command) == _without_potentials(other.command)
        )

    @property
    def potentials(self) -> frozenset[str]:
        """Extras of pretrained potentials."""
        return frozenset(self.extras.split()) - {"xtb"}

    @property
    def group(self) -> tuple[str | int, ...]:
        """What rows have in common whose errors can be compared."""
        return (*self.setting, self.n_test, self.command)

    @property
    def setting(self) -> tuple[str | int, ...]:
        """Everything but the method and the way of measuring."""
        return (self.kind, self.n, self.source, self.extras, self.levels)


Group = Sequence[MeasuredError]


@cache
def measured_errors() -> tuple[MeasuredError, ...]:
    """Return the rows of the table of the package."""
    return read_table(TABLE)


def read_table(path: Path) -> tuple[MeasuredError, ...]:
    """Return the rows of a table; raises InputError where a row is not one of this table."""
    names = [field.name for field in fields(MeasuredError)]
    rows = []
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            if list(row) != names or row["kind"] not in get_args(CrystalKind):
                raise InputError(
                    f"{path}, row {number}: not a measured error. Accepted: columns "
                    f"{', '.join(names)}, and one of the kinds {'; '.join(get_args(CrystalKind))}."
                )
            values: dict[str, Any] = dict(row)
            values |= {name: int(row[name]) for name in ("n", "n_test")}
            rows.append(MeasuredError(**values | {"rmse_eV": float(row["rmse_eV"])}))
    return tuple(rows)


def groups(rows: Iterable[MeasuredError]) -> list[list[MeasuredError]]:
    """Return the rows in groups whose errors can be compared."""
    by_group: dict[tuple[str | int, ...], list[MeasuredError]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    return list(by_group.values())


def best_measured(
    kind: CrystalKind, *, has_source: bool, levels: ElectronLevels = "none", n: int | None = None
) -> MeasuredError | None:
    """Return the candidate with the lowest error on a kind of crystals, None if none was measured.

    Of several groups of rows it is the one with the size nearest to `n`, then the one with the most
    candidates, then the one with the most methods, then the one without extras.
    """
    matching = [
        group
        for group in groups(measured_errors())
        if (group[0].kind, group[0].levels) == (kind, levels)
        and (group[0].source != NO_SOURCE) == has_source
        and _candidates(group)
    ]
    if not matching:
        return None

    def preference(group: Group) -> tuple[int, int, int, str]:
        first = group[0]
        return (abs(first.n - (n or first.n)), -len(_candidates(group)), -len(group), first.extras)

    return min(_candidates(min(matching, key=preference)), key=lambda row: row.rmse_eV)


def _candidates(group: Group) -> list[MeasuredError]:
    return [row for row in group if row.method in CANDIDATES]


def error_of(
    kind: CrystalKind,
    method: str,
    *,
    has_source: bool,
    levels: ElectronLevels = "none",
    like: MeasuredError | None = None,
    potentials: Collection[str] = (),
    n: int | None = None,
) -> MeasuredError | None:
    """Return the measured error of a method on a kind of crystals, None if there is none.

    Of several rows it is the one that was measured together with `like`, then one with no other
    pretrained potentials than the installed ones, whose extras are `potentials`, and with most of
    them, then the one that was measured with the most other methods, then the one with the number
    of labels nearest to `n`, by default with the fewest.
    """
    rows = _rows_of(kind, method, has_source=has_source, levels=levels)
    sizes = Counter(row.group for row in measured_errors())

    def preference(row: MeasuredError) -> tuple[bool, bool, int, int, int, int]:
        is_available = row.potentials <= set(potentials)
        return (
            like is not None and row.measured_with(like),
            is_available,
            len(row.potentials) if is_available else 0,
            sizes[row.group],
            0 if n is None else -abs(row.n - n),
            -row.n,
        )

    return max(rows, key=preference, default=None)


def gain_of_potentials(
    kind: CrystalKind,
    method: str,
    *,
    levels: ElectronLevels,
    potentials: Collection[str],
    n: int | None = None,
) -> tuple[MeasuredError, MeasuredError] | None:
    """Return the lowest error with more potentials than the installed ones, and that without them.

    `potentials` are the extras of the installed potentials. Both errors are without a source and of
    the same splits, with the number of labels nearest to `n`, by default with the fewest. None if
    no error was measured with more of them, or if it was not lower.
    """
    rows = _rows_of(kind, method, has_source=False, levels=levels)
    pairs = [
        (more, now)
        for more in rows
        for now in rows
        if now.potentials == set(potentials)
        and more.potentials > now.potentials
        and more.differs_by_potentials_from(now)
    ]

    def preference(pair: tuple[MeasuredError, MeasuredError]) -> tuple[int, int, float]:
        more, _ = pair
        return 0 if n is None else abs(more.n - n), more.n, more.rmse_eV

    pair = min(pairs, key=preference, default=None)
    if pair is None:
        return None
    more, now = pair
    return pair if more.rmse_eV < now.rmse_eV else None


def gain_of_source(
    kind: CrystalKind, *, potentials: Collection[str], n: int | None = None
) -> tuple[MeasuredError, MeasuredError] | None:
    """Return the lowest errors of candidates with and without a source, of the same splits.

    That without is with as many of the installed potentials, whose extras are `potentials`, as were
    measured. Of several numbers of labels it is the one nearest to `n`, by default the smallest.
    None if the error with a source is not lower.
    """
    rows = [row for row in measured_errors() if row.kind == kind and row.levels == "none"]
    available = [row for row in _candidates(rows) if row.potentials <= set(potentials)]
    alone = [row for row in available if row.source == NO_SOURCE]
    most = max((len(row.potentials) for row in alone), default=0)
    pairs = [
        (row, other)
        for row in available
        for other in alone
        if row.source != NO_SOURCE and row.measured_with(other) and len(other.potentials) == most
    ]
    pair = min(
        pairs,
        key=lambda pair: (abs(pair[0].n - (n or 0)), pair[0].rmse_eV, pair[1].rmse_eV),
        default=None,
    )
    return pair if pair is not None and pair[0].rmse_eV < pair[1].rmse_eV else None


def _without_potentials(command: str) -> str:
    return re.sub(r" --potential \S+", "", command)


def levels_help(
    kind: CrystalKind, method: str, levels: ElectronLevels, *, has_source: bool
) -> bool:
    """Return whether a method had a lower error with these electron levels than without any.

    Only errors that were measured together are compared.
    """
    return any(
        row.rmse_eV < other.rmse_eV
        for row in _rows_of(kind, method, has_source=has_source, levels=levels)
        for other in _rows_of(kind, method, has_source=has_source, levels="none")
        if other.measured_with(row)
    )


def _rows_of(
    kind: CrystalKind, method: str, *, has_source: bool, levels: ElectronLevels
) -> list[MeasuredError]:
    return [
        row
        for row in measured_errors()
        if (row.kind, row.method, row.levels) == (kind, method, levels)
        and (row.source != NO_SOURCE) == has_source
    ]
