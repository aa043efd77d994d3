"""What a study is: data, a function that computes the values of a split, and a fault it notices.

A study computes independent values: of splits, data sets or replicates, by setting, method and
quantity. The frame runs the splits, keeps those that are finished, and stores the values; rows,
statements and verdicts are made of them by the rule of today. NaN is a value that is left out, an
infinite one the error of a chain that diverged.

The verdict on printed numbers is one pooled test a table. With d_i our number minus the printed,

    M = mean of d_i^2 / v_i,    v_i = (k p_i)^2 + e_i^2 + u_i^2 / 3

k is the common Monte-Carlo error of all rows of one method and quantity, relative to the size of
both numbers, p_i the printed number, e_i its error, and u_i one unit of its last digit (some tables
are truncated). A printed zero has no relative error: its row has its own error. M has the F
distribution of the number of independent blocks of rows if both computations have the same
expectations. The settings of a block begin alike, or all rows of a study are one block
(`Study.one_block`), as they share their data. Where errors are uneven, their number is lowered by
Satterthwaite's rule, (sum of w)^2 / sum of w^2 with w_i = (own error)^2 / v_i. A table

- differs if M is above its 99 % quantile,
- agrees if it does not, and in each method's rows M is so small that differences of 10 % (root mean
  square) would give a larger one with probability 0.95, and differences of 50 % would exceed the
  quantile with the same probability,
- else cannot tell.

A statement on numbers holds if each is proven at 95 % by Student's distribution, and fails if one
is refuted at 95 % for all of them together (Bonferroni).
"""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as fisher
from scipy.stats import ncf
from scipy.stats import t as student

from benchmarks.kept_parts import Parts
from benchmarks.studies.cpu_time import cpu_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

SCALES = ("smoke", "laptop", "paper")
DRAWN = "for the figure"
NOT_STORED = Parts()
FALSE_ALARM = 0.01  # of the pooled test of a table
LEVEL = 0.05  # of statements, and of the bound on the size of differences
BOUND = 0.1  # relative difference that an agreement excludes
GROSS = 0.5  # relative difference that would be noticed where there is an agreement
MANY = 1e6  # degrees of freedom of errors that are known
BATCHES = 50  # means of so many batches are stored where a split has more values

Verdict = Literal["agrees", "differs", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of ours, next to the printed one.

    Attributes
    ----------
    table
        File of the printed number in `published`, without ".csv"; empty if none is printed.
    setting, method, quantity
        Where the number is in the table.
    value, error
        Our number and its Monte-Carlo standard error.
    printed, printed_error, printed_unit
        The printed number, its standard error if one is printed, and one unit of its last digit.
    reading
        How the text was understood, where it is not taken literally. Such rows are shown, and do
        not count for the verdict.
    n_values
        Number of independent values whose mean `value` is; 0 where `error` is known otherwise.
    """

    table: str = ""
    setting: str
    method: str
    quantity: str
    value: float
    error: float = 0.0
    printed: float | None = None
    printed_error: float = 0.0
    printed_unit: float = 0.0
    reading: str = ""
    n_values: int = 0


@dataclass(frozen=True)
class Comparison:
    """Verdict on rows with printed numbers, their number, and their relative difference (rms)."""

    verdict: Verdict
    n_rows: int
    apart: float


def compared(
    rows: Sequence[Row], *, one_block: bool = False, false_alarm: float = FALSE_ALARM
) -> Comparison:
    """Return the verdict of the pooled test of rows that all have a printed number.

    Rows whose settings begin alike are a block, or all are with `one_block`.

    >>> rows = [
    ...     Row(setting=f"p = {p}", method="a", quantity="b", value=value, error=0.02, printed=1.0)
    ...     for p, value in enumerate((0.99, 1.01, 1.02, 0.98))
    ... ]
    >>> doubled = [replace(row, value=2 * row.value) for row in rows]
    >>> compared(rows).verdict, compared(doubled).verdict, round(compared(doubled).apart, 2)
    ('agrees', 'differs', 0.63)
    """
    value, error, printed, printed_error, unit = np.array(
        [(r.value, r.error, r.printed, r.printed_error, r.printed_unit) for r in rows], dtype=float
    ).T
    size = np.sqrt((value**2 + printed**2) / 2.0)
    relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)
    columns = np.array([f"{r.table}|{r.method}|{r.quantity}" for r in rows])
    common = error.copy()
    for column in np.unique(columns[printed != 0]):
        of = (columns == column) & (printed != 0)
        common[of] = np.sqrt((relative[of] ** 2).mean()) * np.abs(printed[of])
    further = printed_error**2 + unit**2 / 3.0
    variance = common**2 + further
    weights = (np.where(printed != 0, relative * printed, error) ** 2 + further) / variance
    freedom: dict[str, float] = {}
    for row in rows:
        block = "" if one_block else row.setting.partition(", ")[0]
        freedom[block] = max(freedom.get(block, 0.0), row.n_values - 1.0 if row.n_values else MANY)
    # Estimates of the errors scatter by themselves, which is taken off the unevenness.
    scatter = 1.0 + 2.0 * len(freedom) / sum(freedom.values())
    even = min(1.0, weights.sum() ** 2 * scatter / (weights**2).sum() / len(rows))
    n_blocks = max(1.0, even * len(freedom))
    dof = (n_blocks, max(min(freedom.values()), even * sum(freedom.values())))
    difference = value - printed
    statistic = float((difference**2 / variance).mean())
    critical = float(fisher.isf(false_alarm, *dof))
    of_printed = float((printed**2 / variance).mean())
    of_size = np.divide(difference, size, out=np.zeros_like(size), where=size > 0)
    apart = float(np.sqrt((of_size**2).mean()))
    if statistic > critical:
        return Comparison("differs", len(rows), apart)
    # scipy's ncf fails far in the tail; at ten times the limit the probability is below 0.05.
    can_tell = all(
        ncf.cdf(limit, *dof, n_blocks * min(share**2 * of_printed, 10.0 * (1.0 + limit))) < LEVEL
        for share, limit in ((BOUND, statistic), (GROSS, critical))
    )
    return Comparison("agrees" if can_tell else "cannot tell", len(rows), apart)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A number of a statement with its standard error, and the interval in which it should be.

    `n_values` is the number of independent values whose mean it is, 0 where `error` is known.
    """

    what: str
    value: float
    error: float = 0.0
    n_values: int = 0
    low: float = -math.inf
    high: float = math.inf

    def verdict(self, n_parts: int) -> Verdict:
        """Return whether the number is in its interval, as one of `n_parts` of a statement."""
        proof, refutation = (
            self.error * float(student.isf(level, self.n_values - 1 if self.n_values else MANY))
            for level in (LEVEL, LEVEL / n_parts)
        )
        if self.value - proof >= self.low and self.value + proof < self.high:
            return "agrees"
        if self.value + refutation < self.low or self.value - refutation > self.high:
            return "differs"
        return "cannot tell"

    def __str__(self) -> str:
        error = f" ± {self.error:.2g}" if self.error else ""
        return f"{self.what} {self.value:.3g}{error}"


@dataclass(frozen=True)
class Statement:
    """A statement of the text, the numbers that decide it, and how the text was read."""

    text: str
    parts: Sequence[Part]
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether all numbers are where the statement has them."""
        return together([part.verdict(len(self.parts)) for part in self.parts])

    @property
    def reading(self) -> str:
        """The note in brackets."""
        return f" ({self.note})" if self.note else ""

    @property
    def evidence(self) -> str:
        """The numbers and the note."""
        return "; ".join(str(part) for part in self.parts) + self.reading


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on all: one that differs counts more than one that cannot tell.

    >>> together(["agrees", "cannot tell"]), together(["cannot tell", "differs"]), together([])
    ('cannot tell', 'differs', 'cannot tell')
    """
    if "differs" in verdicts:
        return "differs"
    return "agrees" if set(verdicts) == {"agrees"} else "cannot tell"


class Key(NamedTuple):
    """Where values are in a table; values with the reading `DRAWN` are for the figure alone."""

    setting: str
    method: str
    quantity: str
    reading: str = ""


Values = dict[Key, Floats]  # independent values (n,)
SECONDS = Key("", "", "CPU time of a split (s)")


def readings(*texts: str) -> str:
    """Return several readings of the text as one."""
    return ", ".join(filter(None, texts))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of ours that a study would notice.

    Of the values whose key has all fields of `where`: times `factor`, those of two methods or
    settings `swapped`.
    """

    text: str
    factor: float = 1.0
    where: Mapping[str, str] = field(default_factory=dict)
    swapped: Sequence[str] = ()

    def applied(self, result: "Result") -> "Result":
        """Return the result of the values with the fault."""
        other = dict(zip(self.swapped, reversed(self.swapped), strict=True))
        values: Values = {}
        for key, part in result.values.items():
            if self.where.items() <= key._asdict().items():
                values[Key(*(other.get(text, text) for text in key))] = self.factor * part
            else:
                values[key] = part
        return replace(result, values=values)

    def turned(self, result: "Result") -> list[tuple[str, Verdict, Verdict]]:
        """Return the verdicts on methods of a table and statements that the fault reverses."""
        before, after = result.judged, self.applied(result).judged
        both = {"agrees", "differs"}
        return [
            (name, old, after[name]) for name, old in before.items() if {old, after[name]} == both
        ]


@dataclass(frozen=True, kw_only=True)
class Study:
    """One study.

    Attributes
    ----------
    name
        What `python -m benchmarks study` calls it.
    title
        What it recomputes.
    source
        Where the paper has it.
    tables
        Files in `published` that it recomputes.
    compute
        Returns the values of a split, from its seed and the sizes of a scale.
    sizes
        Arguments of `compute` by scale; those of "laptop" where a scale has none.
    splits
        Numbers of splits by scale, as the sizes; 1 where `compute` has replicates.
    printed
        Fields of `Row` for the printed number (`published_tables.cell`).
    one_block
        Whether all rows of a split share their data.
    statements
        What the text says, from the values.
    reasons
        For a method whose rows differ: why.
    incomparable
        Why the printed numbers are of other data; rows are shown, and do not count for the verdict.
    notes
        Sentences that belong to the result, such as settings where the text has none.
    draw
        Draws the figure of the values, in place of the common figure of the rows.
    fault
        A fault that its stored result would notice; None where it can tell nothing.
    left_out
        What of the printed tables and figures is not recomputed.
    """

    name: str
    title: str
    source: str
    tables: Sequence[str] = ()
    compute: Callable[..., Values]
    sizes: Mapping[str, Mapping[str, Any]]
    splits: Mapping[str, int] = field(default_factory=dict)
    printed: Callable[[Key], Mapping[str, Any]] = lambda key: {}
    one_block: bool = False
    statements: Callable[[Values], Sequence[Statement]] = lambda values: ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    incomparable: str = ""
    notes: Sequence[str] = ()
    draw: "Callable[[Figure, Values], None] | None" = None
    fault: Fault | None = None
    left_out: str = ""

    def size(self, scale: str) -> dict[str, Any]:
        """Return the number of splits and the arguments of `compute` at a scale."""
        n_splits = self.splits.get(scale, self.splits.get("laptop", 1))
        return {"splits": n_splits, **self.sizes.get(scale, self.sizes["laptop"])}

    def run(self, scale: str, seed: int, parts: Parts = NOT_STORED, **facts: Any) -> "Result":
        """Compute the splits that `parts` lacks; `facts` say with what code."""
        size = self.size(scale)
        n_splits = size.pop("splits")

        def split(number: int) -> Values:
            figures = parts.get(
                f"split {number}",
                {"size": size, "seed": seed, **facts},
                lambda: self._measured(1000 * seed + number, size),
            )
            return {Key(*json.loads(key)): np.array(value) for key, value in figures.items()}

        splits = [split(number) for number in range(n_splits)]
        values = {
            key: in_batches(np.concatenate([part[key] for part in splits]), key)
            for key in splits[0]
        }
        seconds = float(values.pop(SECONDS).sum())
        return Result(self, values, {"splits": n_splits, **size}, round(seconds, 1))

    def _measured(self, seed: int, size: Mapping[str, Any]) -> dict[str, list[float]]:
        """Return values by their keys as JSON, with the CPU time."""
        started = cpu_seconds()
        values = self.compute(seed, **size)
        values[SECONDS] = np.array(cpu_seconds() - started)
        return {json.dumps(key): np.atleast_1d(part).tolist() for key, part in values.items()}


def in_batches(values: Floats, key: Key) -> Floats:
    """Return the means of `BATCHES` batches where there are more values of a row."""
    if len(values) <= BATCHES or key == SECONDS or key.reading == DRAWN:
        return values
    return np.array([part.mean() for part in np.array_split(values, BATCHES)])


@dataclass(frozen=True)
class Result:
    """Values of a study, the sizes that were computed and their CPU time, and what follows."""

    study: Study
    values: Values
    size: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def _row_values(self) -> Values:
        """The values that are not for the figure alone."""
        return {key: part for key, part in self.values.items() if key.reading != DRAWN}

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The mean of the finite values of each key, if there are two, or if one is all."""
        return [
            mean_row(key, part[np.isfinite(part)], self.study.printed(key))
            for key, part in self._row_values.items()
            if np.isfinite(part).sum() >= min(2, len(part))
        ]

    @cached_property
    def statements(self) -> Sequence[Statement]:
        """What the text says, and the numbers that decide it."""
        return self.study.statements(self.values)

    @property
    def notes(self) -> list[str]:
        """The notes of the study, the sizes, and what is left out."""
        lacking = [
            f"{key.method}, {key.setting}, {key.quantity}: {n} of {len(part)}"
            for key, part in self._row_values.items()
            if (n := int((~np.isfinite(part)).sum()))
        ]
        return [
            *self.study.notes,
            "Sizes: " + ", ".join(f"{name} {value}" for name, value in self.size.items()) + ".",
            *([f"Not finite and left out: {'; '.join(lacking)}."] if lacking else []),
        ]

    def comparisons(self, key: Callable[[Row], str]) -> dict[str, Comparison]:
        """Return the verdicts on printed numbers, those of the same key together."""
        parts: dict[str, list[Row]] = {}
        for row in () if self.study.incomparable else self.rows:
            if row.printed is not None and not row.reading:
                parts.setdefault(key(row), []).append(row)
        return {name: self._compared(rows) for name, rows in parts.items()}

    def _compared(self, rows: Sequence[Row]) -> Comparison:
        return compared(rows, one_block=self.study.one_block)

    @cached_property
    def columns(self) -> Mapping[str, Comparison]:
        """The verdict on every method of a table."""
        return self.comparisons(lambda row: f"{row.table}, {row.method}")

    @cached_property
    def tables(self) -> Mapping[str, Comparison]:
        """The verdict on every printed table: it agrees if each of its columns does."""
        columns: dict[str, set[Verdict]] = {}
        for name, one in self.columns.items():
            columns.setdefault(name.partition(", ")[0], set()).add(one.verdict)
        return {
            table: one
            if one.verdict == "differs" or columns[table] == {"agrees"}
            else replace(one, verdict="cannot tell")
            for table, one in self.comparisons(lambda row: row.table).items()
        }

    @property
    def judged(self) -> dict[str, Verdict]:
        """The verdicts on columns and statements."""
        of_columns = {name: one.verdict for name, one in self.columns.items()}
        return of_columns | {statement.text: statement.verdict for statement in self.statements}

    @property
    def verdict(self) -> Verdict:
        """The verdict on all tables and statements together."""
        tables = [one.verdict for one in self.tables.values()]
        return together([*tables, *(statement.verdict for statement in self.statements)])

    @property
    def summary(self) -> str:
        """The verdict, and those on tables and statements."""
        parts = [
            f"{table}: {one.n_rows} numbers, {one.verdict}, {100 * one.apart:.3g} % apart"
            for table, one in self.tables.items()
        ]
        if self.statements:
            n_hold = sum(statement.verdict == "agrees" for statement in self.statements)
            parts.append(f"{n_hold} of {len(self.statements)} statements hold")
        return self.verdict + (f" ({'; '.join(parts)})." if parts else ".")

    @property
    def explanations(self) -> list[str]:
        """For every method that differs, or for all that cannot be compared: why."""
        differing = dict.fromkeys(
            name.partition(", ")[2]
            for name, one in self.columns.items()
            if one.verdict == "differs"
        )
        reasons = [
            " ".join(
                [
                    f"{method}: {self.study.reasons.get(method, 'no reason found.')}",
                    *self._other_readings(method),
                ]
            )
            for method in differing
        ]
        if self.study.incomparable:
            reasons.append(f"Numbers are not compared: {self.study.incomparable}")
        return reasons

    def _other_readings(self, method: str) -> list[str]:
        """Return the verdict on a method under each other reading of the text."""
        rows = [row for row in self.rows if row.method == method and row.printed is not None]
        return [
            f'Read as "{reading}": {one.verdict}, {100 * one.apart:.3g} % apart.'
            for reading in dict.fromkeys(row.reading for row in rows if row.reading)
            for one in [self._compared([row for row in rows if row.reading == reading])]
        ]


@cache
def _texts() -> dict[str, Any]:
    path = Path(__file__).with_name("studies.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _fields(name: str) -> dict[str, Any]:
    """Return the fields of a study, with those of the one that it is `like`."""
    fields = dict(_texts()[name])
    return (_fields(fields.pop("like")) if "like" in fields else {}) | fields


def study_of(name: str, compute: Callable[..., Values], **functions: Any) -> Study:
    """Return the study with texts, sizes and fault of `studies.toml`; a fault {} is none."""
    fields = _fields(name)
    fault = fields.get("fault")
    fields["fault"] = Fault(**fault) if fault else None
    return Study(name=name, compute=compute, **fields, **functions)


def mean_row(key: Key, values: Floats, printed: Mapping[str, Any]) -> Row:
    """Return the row of independent values (n,): their mean, and its standard error.

    `printed` are the fields of the printed number, and `printed_n`, where it has no error but is
    the mean of so many such values.

    >>> row = mean_row(Key("n = 3", "a", "error"), np.array([1.0, 2.0, 3.0]), {})
    >>> row.value, round(row.error, 3)
    (2.0, 0.577)
    """
    mean, error, n = mean_of(values)
    fields = dict(printed)
    if "printed_n" in fields:
        fields["printed_error"] = error * math.sqrt(n / fields.pop("printed_n"))
    return Row(**key._asdict(), value=mean, error=error, n_values=n, **fields)


def mean_part(what: str, values: Floats, *, low: float = -math.inf, high: float = 0.0) -> Part:
    """Return the part of independent values (n,) whose mean should be in an interval.

    Differences of two methods should be below 0 unless another interval is given.
    """
    usable_values = values[~np.isnan(values)]
    mean, error, n = mean_of(usable_values)
    if len(usable_values) == 1 < len(values):  # one that is left proves nothing
        error = math.inf
    return Part(what=what, value=mean, error=error, n_values=n, low=low, high=high)


def settings_of(values: Values, quantity: str) -> list[str]:
    """Return the settings that have a quantity, in their order, without other readings."""
    keys = (key for key in values if key.quantity == quantity and not key.reading)
    return list(dict.fromkeys(key.setting for key in keys))


def below(
    values: Values,
    first: str,
    rivals: Iterable[str],
    quantity: str,
    settings: Iterable[str],
    *,
    low: float = -math.inf,
    high: float = 0.0,
) -> list[Part]:
    """Return the differences of a method and its rivals, which should be below 0."""
    return [
        mean_part(
            f"{setting}: {first} minus {rival}" if setting else f"{first} minus {rival}",
            values[Key(setting, first, quantity)] - values[Key(setting, rival, quantity)],
            low=low,
            high=high,
        )
        for setting in settings
        for rival in rivals
    ]


def mean_of(values: Floats) -> tuple[float, float, int]:
    """Return mean, standard error and number of independent values (n,); 0, 0 of a single one."""
    if not len(values):
        return math.nan, 0.0, 0
    if len(values) == 1 or not np.isfinite(values).all():
        return float(values.mean()), 0.0, 0
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)), len(values)
