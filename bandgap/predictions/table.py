"""Predicted band gaps of structures: mean, intervals of any level, and the CSV that people take home.

The predictive distribution of a new observation is the equal-weight mixture of N(mean_d, sd_d^2) over the posterior
draws d (never a normal distribution fitted to it); the distribution of the mean is that of the mean_d alone. 199
quantiles of both are kept for every structure, so that another level needs no computing; conformal intervals come from
the mean, the standard deviation of a new observation and the scores of held-back structures. Loads no torch, and pandas
only for a table.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from bandgap.foundation.csv_tables import csv_of_columns, rearm
from bandgap.foundation.errors import InputError
from bandgap.predictions.conformal import ConformalScores, available
from bandgap.predictions.interval_kinds import IntervalKind, check_kind, check_level
from bandgap.predictions.mixtures import (
    by_structure,
    checked_mixture,
    draw_quantiles,
    finite_means,
    mixture_quantiles,
    mixture_sd,
)

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


LEVELS: Floats = np.arange(1, 200) / 200.0
"""The probabilities of the stored quantiles: 0.005, 0.010, ..., 0.995."""

STATUSES = ("ok", "warning", "refused")

COLUMNS = (
    *("id", "file", "formula", "mean_eV", "sd_eV", "lower_eV", "upper_eV", "level", "interval"),
    *("domain", "status", "problem", "level_of_theory"),
)
TEXTS = ("ids", "files", "formulas", "domain", "status", "problem")  # fields of `Predictions` with a value a row
NUMBERS = ("mean_eV", "sd_mean_eV", "sd_new_eV", "quantiles_mean", "quantiles_new")
NUMBER_COLUMNS = ("mean_eV", "sd_eV", "lower_eV", "upper_eV", "level")

NEGATIVE_END_NOTE = (
    "A band gap is not negative: intervals are shown as computed, and a lower end below zero means that the model "
    "cannot rule out a gap of zero."
)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted gaps, one row for every row of the input; numbers of refused rows are NaN.

    `sd_mean_eV` belongs to the distribution of the mean (credible interval), `sd_new_eV` to that of a new observation
    (prediction interval), in units of which `conformal` are the scores of the structures that the run held back, None
    where it held back none. Raises InputError where the parts do not fit together.
    """

    ids: tuple[str, ...]
    files: tuple[str, ...]
    formulas: tuple[str, ...]
    domain: tuple[str, ...]  # "ok" or the warning
    status: tuple[str, ...]  # ok, warning, refused
    problem: tuple[str, ...]
    mean_eV: Floats  # (n,)
    sd_mean_eV: Floats  # (n,)
    sd_new_eV: Floats  # (n,)
    quantiles_mean: Floats  # (199, n)
    quantiles_new: Floats  # (199, n)
    level_of_theory: str = ""
    conformal: ConformalScores | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in TEXTS:
            if len(getattr(self, name)) != n:
                raise InputError(f"predictions: len(ids)={n} but len({name})={len(getattr(self, name))}.")
        for name in NUMBERS:
            expected = (LEVELS.size, n) if name.startswith("quantiles") else (n,)
            if getattr(self, name).shape != expected:
                raise InputError(f"predictions: {name} has shape {getattr(self, name).shape}, expected {expected}.")
        unknown = sorted(set(self.status) - set(STATUSES))
        if unknown:
            raise InputError(f"predictions: status {unknown[0]!r}. Accepted: {', '.join(STATUSES)}.")
        wrong = np.flatnonzero(np.isfinite(self.mean_eV) == (np.asarray(self.status, dtype=object) == "refused"))
        if wrong.size:
            i = int(wrong[0])
            raise InputError(f"predictions: {self.ids[i]!r} is {self.status[i]} but its mean is {self.mean_eV[i]} eV.")

    def __len__(self) -> int:
        return len(self.ids)

    def warning(self, row: int) -> str:
        """Return everything to mind about one row: what is wrong with the structure, then how far it is from known."""
        domain = self.domain[row]
        return " ".join(text for text in (self.problem[row], domain if domain != "ok" else "") if text)

    def interval(self, level: float, kind: IntervalKind = "prediction") -> tuple[Floats, Floats]:
        """Return the lower and upper ends (n,) in eV of the central interval of `level`, from the stored quantiles.

        Between two stored quantiles the interpolation is linear in the normal score, which is exact for a normal
        distribution. Raises ConfigError for a level outside 0.01 to 0.99, for another kind and for a conformal interval
        of a run that held nothing back, and InputError where it held back too few structures for the level.
        """
        check_level(level)
        check_kind(kind)
        if kind == "conformal":
            return available(self.conformal).interval(level, mean=self.mean_eV, sd=self.sd_new_eV)
        stored = self.quantiles_new if kind == "prediction" else self.quantiles_mean
        lower, upper = (_at_probability(stored, p) for p in ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
        return lower, upper

    def to_frame(self, level: float = 0.95, kind: IntervalKind = "prediction") -> "pd.DataFrame":
        """Return the table, one row for every row of the input, columns as in `COLUMNS`."""
        import pandas as pd

        return pd.DataFrame({name: _column(values) for name, values in self.to_columns(level, kind).items()})

    def to_columns(self, level: float = 0.95, kind: IntervalKind = "prediction") -> dict[str, Sequence[str] | Floats]:
        """Return the columns of the table by name, texts as sequences and numbers as arrays (n,)."""
        lower, upper = self.interval(level, kind)
        sd = self.sd_mean_eV if kind == "credible" else self.sd_new_eV
        constant = (np.full(len(self), float(level)), [kind] * len(self))
        numbers = (self.mean_eV, sd, lower, upper)
        texts = (self.domain, self.status, self.problem, [self.level_of_theory] * len(self))
        columns = (self.ids, self.files, self.formulas, *numbers, *constant, *texts)
        return dict(zip(COLUMNS, columns, strict=True))

    def to_csv(self, path: Path | str | None = None, *, level: float = 0.95, kind: IntervalKind = "prediction") -> str:
        """Return the table as CSV text and write it to `path` if one is given."""
        text = csv_of_columns(self.to_columns(level, kind))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="")
        return text


def predictions_from_draws(
    means: ArrayLike,
    sds: ArrayLike,
    *,
    ids: Sequence[str],
    files: Sequence[str],
    formulas: Sequence[str],
    domain: Sequence[str],
    status: Sequence[str],
    problem: Sequence[str],
    centres: ArrayLike | None = None,
    level_of_theory: str = "",
    conformal: ConformalScores | None = None,
) -> Predictions:
    """Summarise draws of the means (draw, n) and of the noise sds (draw,) or (draw, n), in eV, into `Predictions`.

    A new observation is the equal-weight mixture of normals about `centres` (component, n), by default the means, with
    these sds. One column for every row of the input; columns of refused rows are ignored and may hold NaN.
    """
    refused = np.asarray(status, dtype=object) == "refused"
    drawn = np.asarray(means, dtype=np.float64)
    if drawn.ndim != 2 or drawn.shape[1] != refused.size:
        raise InputError(f"means has shape {drawn.shape}, len(status)={refused.size}. Accepted: (draw, len(status)).")
    noise, usable = np.asarray(sds, dtype=np.float64), np.flatnonzero(~refused)
    new = drawn if centres is None else np.asarray(centres, dtype=np.float64)
    new, spreads = checked_mixture(new[:, usable], noise[:, usable] if noise.ndim == 2 else noise)
    drawn = finite_means(drawn[:, usable])

    def scatter(values: Floats) -> Floats:
        full = np.full((*values.shape[:-1], refused.size), np.nan)
        full[..., usable] = values
        return full

    return Predictions(
        ids=tuple(ids),
        files=tuple(files),
        formulas=tuple(formulas),
        domain=tuple(domain),
        status=tuple(status),
        problem=tuple(problem),
        mean_eV=scatter(by_structure(drawn).mean(axis=1)),
        sd_mean_eV=scatter(by_structure(drawn).std(axis=1)),
        sd_new_eV=scatter(mixture_sd(new, spreads)),
        quantiles_mean=scatter(draw_quantiles(drawn, LEVELS)),
        quantiles_new=scatter(mixture_quantiles(new, spreads, LEVELS)),
        level_of_theory=level_of_theory,
        conformal=conformal,
    )


def read_predictions_csv(source: Path | str | bytes) -> "pd.DataFrame":
    """Read a predictions CSV (a path, or its bytes) as the table that `Predictions.to_frame` gave.

    Ids and all other text stay text exactly as it was before defusing; numbers of refused rows are NaN. Further columns
    are kept as text; `level_of_theory` may be absent. Raises InputError on a file that is no such table.
    """
    import pandas as pd

    name = "predictions" if isinstance(source, bytes) else str(source)
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header, *rows = [row for row in reader if row]
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise InputError(f"{name}: not a readable CSV table ({error}). Give the CSV that predict wrote.") from error
    missing = [column for column in COLUMNS[:-1] if column not in header]
    if missing:
        raise InputError(f"{name}: column {missing[0]!r} is missing. Accepted: columns {', '.join(COLUMNS)}.")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{name}, row {line}: {len(row)} cells, expected {len(header)}. Was the file cut off?")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(header, ())
    return pd.DataFrame({key: _parsed(key, cells, where=name) for key, cells in columns.items()})


def _parsed(column: str, cells: Sequence[str], *, where: str) -> "pd.Series[Any]":
    if column not in NUMBER_COLUMNS:
        return _column([rearm(cell) for cell in cells])
    try:
        return _column(np.array([float(cell) if cell.strip() else np.nan for cell in cells]))
    except ValueError as error:
        raise InputError(f"{where}: column {column!r}: {error}. Accepted: numbers, empty where refused.") from error


def _column(values: Any) -> "pd.Series[Any]":
    import pandas as pd

    if isinstance(values, np.ndarray):
        return pd.Series(values)
    return pd.Series(list(values), dtype="str")


def _at_probability(stored: Floats, probability: float) -> Floats:
    """Return the quantile (n,) at one probability from quantiles (199, n) at LEVELS, linear in the normal score."""
    right = int(np.clip(np.searchsorted(LEVELS, probability - 1e-9), 1, LEVELS.size - 1))
    scores = ndtri(np.array([LEVELS[right - 1], LEVELS[right], np.clip(probability, LEVELS[0], LEVELS[-1])]))
    share = (scores[2] - scores[0]) / (scores[1] - scores[0])
    result: Floats = stored[right - 1] + share * (stored[right] - stored[right - 1])
    return result
