"""What a study is: its rows and claims, when they agree with the paper, and the line that says so.

A row agrees if its value differs from the printed one by at most

    q sqrt(e^2 + e_printed^2) + u

where e are the Monte-Carlo standard errors and u is one unit of the last printed digit (some tables
are truncated, not rounded). q is a quantile of the normal distribution at which all compared rows
of a study agree with probability 0.99, if both computations have the same expectations. Where e is
of n independent values, it is the quantile of Student's distribution of the same probability. A row
that agrees where q standard errors of ours exceed the printed number is too uncertain to tell.

A statement on a difference between two methods is decided by Student's distribution over the data
sets. It is undecided (None) where the data sets are too few for its direction.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
FALSE_ALARM = 0.01  # of all rows of a study together
CONFIDENCE = 0.95  # of the direction of a difference, one-sided

Outcome = Literal["agrees", "disagrees", "undecided", "cannot be compared"]


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
        not count for the outcome.
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

    def students(self, quantile: float) -> float:
        """Return the quantile of Student's distribution with the probability of the normal one."""
        if self.n_values < 2:
            return quantile
        return float(student.isf(norm.sf(quantile), self.n_values - 1))

    def agrees(self, quantile: float) -> bool:
        """Whether the value is as near to the printed one as their errors allow."""
        if self.printed is None:
            return True
        error = math.hypot(self.error, self.printed_error)
        margin = self.students(quantile) * error + self.printed_unit
        return abs(self.value - self.printed) <= margin

    def is_too_uncertain(self, quantile: float) -> bool:
        """Whether the row agrees, but our error exceeds the printed number: more data sets tell."""
        if self.printed is None or not self.agrees(quantile):
            return False
        error = self.students(quantile) * self.error
        return error > max(abs(self.printed), self.printed_unit)


@dataclass(frozen=True)
class Claim:
    """A statement of the text that the study checks, and the numbers that decide it.

    `holds` is None if the numbers do not decide it.
    """

    text: str
    holds: bool | None
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a study computed.

    Attributes
    ----------
    rows, claims
        Numbers and statements.
    reasons
        For a method whose rows disagree: why. The key is `Row.method`.
    incomparable
        For a method that cannot be compared with the printed numbers: why. Its rows are shown, and
        do not count for the outcome.
    notes
        Sentences that belong to the result, such as settings where the text has none.
    draw
        Draws the figure; None if the common figure of the rows is drawn.
    """

    rows: Sequence[Row] = ()
    claims: Sequence[Claim] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    incomparable: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    draw: "Callable[[Figure], None] | None" = None

    @property
    def compared_rows(self) -> list[Row]:
        """Rows that count for the outcome."""
        return [
            row
            for row in self.rows
            if row.printed is not None and not row.reading and row.method not in self.incomparable
        ]

    @property
    def quantile(self) -> float:
        """The quantile q of this study."""
        return quantile_of(len(self.compared_rows))

    def disagreeing(self) -> list[Row]:
        """Rows that count and do not agree."""
        return [row for row in self.compared_rows if not row.agrees(self.quantile)]

    def _read(self, method: str) -> list[str]:
        """Return how many rows of a method agree under each other reading of the text."""
        rows = [
            row
            for row in self.rows
            if row.method == method and row.reading and row.printed is not None
        ]
        quantile = quantile_of(len(rows))
        return [
            f'Read as "{reading}", {agreement(part, quantile=quantile, what="")}.'
            for reading in dict.fromkeys(row.reading for row in rows)
            for part in [[row for row in rows if row.reading == reading]]
        ]

    @property
    def outcome(self) -> Outcome:
        """Whether all rows that count agree and all claims hold."""
        if not self.compared_rows and not self.claims:
            return "cannot be compared"
        if self.disagreeing() or any(claim.holds is False for claim in self.claims):
            return "disagrees"
        is_undecided = any(claim.holds is None for claim in self.claims) or any(
            row.is_too_uncertain(self.quantile) for row in self.compared_rows
        )
        return "undecided" if is_undecided else "agrees"

    @property
    def summary(self) -> str:
        """The outcome, and how many numbers agree and statements hold."""
        compared = self.compared_rows
        parts = []
        if compared:
            parts.append(agreement(compared, quantile=self.quantile, what="printed numbers "))
        if self.claims:
            n_hold = sum(claim.holds is True for claim in self.claims)
            n_undecided = sum(claim.holds is None for claim in self.claims)
            text = f"{n_hold} of {len(self.claims)} statements hold"
            parts.append(text + (f", {n_undecided} undecided" if n_undecided else ""))
        return self.outcome + (f" ({'; '.join(parts)})." if parts else ".")

    @property
    def explanations(self) -> list[str]:
        """For every method that disagrees or cannot be compared: why."""
        reasons = [
            " ".join(
                [f"{method}: {self.reasons.get(method, 'no reason found.')}", *self._read(method)]
            )
            for method in dict.fromkeys(row.method for row in self.disagreeing())
        ]
        return reasons + [f"{method}: {reason}" for method, reason in self.incomparable.items()]

    @property
    def verdict(self) -> str:
        """One line: summary and explanations."""
        return " ".join([self.summary, *self.explanations])


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
    run
        Computes it at a scale from a seed.
    """

    name: str
    title: str
    source: str
    tables: tuple[str, ...]
    run: Callable[[Scale, int], Result]


def mean_row(
    values: Sequence[float] | NDArray[np.float64],
    *,
    setting: str,
    method: str,
    quantity: str,
    table: str = "",
    reading: str = "",
    published: Mapping[str, Any] | None = None,
) -> Row:
    """Return the row of independent values (n,): their mean, and its standard error.

    `published` are the fields of the printed number (`published_tables.printed`).

    >>> row = mean_row([1.0, 2.0, 3.0], setting="n = 3", method="a", quantity="error")
    >>> row.value, round(row.error, 3)
    (2.0, 0.577)
    """
    numbers = np.asarray(values, dtype=np.float64)
    return Row(
        table=table,
        setting=setting,
        method=method,
        quantity=quantity,
        reading=reading,
        value=float(numbers.mean()),
        error=standard_error(numbers),
        n_values=len(numbers),
        **(published or {}),
    )


def standard_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of independent values (n,)."""
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def quantile_of(n_rows: int) -> float:
    """Return the quantile at which `n_rows` equal rows all agree with probability 0.99.

    >>> round(quantile_of(1), 2), round(quantile_of(100), 2)
    (2.58, 3.89)
    """
    return float(norm.ppf(1.0 - 0.5 * FALSE_ALARM / max(n_rows, 1)))


def agreement(rows: Sequence[Row], *, quantile: float, what: str) -> str:
    """Return how many rows agree, and how many are too uncertain to tell."""
    n_uncertain = sum(row.is_too_uncertain(quantile) for row in rows)
    n_agree = sum(row.agrees(quantile) for row in rows) - n_uncertain
    text = f"{n_agree} of {len(rows)} {what}agree"
    return text + (f", {n_uncertain} too uncertain to tell" if n_uncertain else "")


def is_below_zero(differences: NDArray[np.float64]) -> bool | None:
    """Return whether the expectation of differences (data set,) is below 0; None if undecided.

    Student's distribution, because the standard error of a few data sets is itself uncertain.

    >>> is_below_zero(np.array([-1.0, -1.1, -0.9])), is_below_zero(np.array([1.0, 1.1, 0.9]))
    (True, False)
    >>> is_below_zero(np.array([-0.9, -0.1, -0.2])) is None  # 1.6 standard errors below 0
    True
    """
    n = len(differences)
    mean = float(differences.mean())
    margin = float(student.ppf(CONFIDENCE, n - 1) * differences.std(ddof=1) / math.sqrt(n))
    if mean < -margin:
        return True
    return False if mean > margin else None


def all_hold(verdicts: Sequence[bool | None]) -> bool | None:
    """Return False if one verdict is False, else None if one is undecided, else True."""
    if False in verdicts:
        return False
    return None if None in verdicts else True
