"""Predicted band gaps of structures: means, intervals of any level, and the CSV table.

The predictive distribution of a new observation is the equal-weight mixture of N(mean_d, sd_d^2)
over the posterior draws d, not a normal distribution fitted to it. The distribution of the mean is
that of the mean_d alone. 199 quantiles of both are stored for every structure, so that no level
needs the draws again. Intervals are cut at zero. Where the labels contain metals, the distribution
of a new observation has the probability `p_metal` at zero (`gap_distribution`). Conformal intervals
follow from the mean, the standard deviation of a new observation and the scores of held-back
structures. Loads no torch, and pandas only for a table.
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
from bandgap.predictions.gap_distribution import GapDistribution, interval_probabilities
from bandgap.predictions.interval_kinds import IntervalKind, check_kind, check_level
from bandgap.predictions.mixtures import (
    by_structure,
    checked_mixture,
    draw_quantiles,
    mixture_quantiles,
    mixture_sd,
)
from bandgap.predictions.window import WINDOW_COLUMNS, Window

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

LEVELS: Floats = np.arange(1, 200) / 200.0
"""The probabilities of the stored quantiles: 0.005, 0.010, ..., 0.995."""

STATUSES = ("ok", "warning", "refused")

COLUMNS = (
    "id",
    "file",
    "formula",
    "mean_eV",
    "sd_eV",
    "lower_eV",
    "upper_eV",
    "level",
    "interval",
    "domain",
    "status",
    "problem",
    "level_of_theory",
)
PRINTED = ("id", "formula", "mean_eV", "lower_eV", "upper_eV", "status")
# Fields with a text for each row.
TEXTS = (
    "ids",
    "files",
    "formulas",
    "domain",
    "status",
    "problem",
)
NUMBERS = ("mean_eV", "sd_mean_eV", "sd_new_eV", "quantiles_mean", "quantiles_new")
P_METAL = "p_metal"
"""A further column of runs whose labels contain metals."""
DOMAIN_P = "domain_p"
"""A further column, of predictions that state it."""

_SEPARATORS = (",", ";", "\t")  # between the columns of a CSV
NUMBER_COLUMNS = (
    "mean_eV",
    "sd_eV",
    "lower_eV",
    "upper_eV",
    "level",
    P_METAL,
    DOMAIN_P,
    "p_window",
)

ZERO_END_NOTE = (
    "A band gap is not negative: a lower end of 0 means that the model cannot rule out a gap of "
    "zero."
)


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """Predicted gaps, one row for every row of the input; numbers of refused rows are NaN.

    Prints as the main columns of its table, with prediction intervals of 95 %.

    `sd_mean_eV` is the standard deviation of the mean (credible interval), `sd_new_eV` that of a
    new observation (prediction interval). `conformal` are the scores, in units of `sd_new_eV`, of
    the structures that the run held back, or None. `p_metal` is the probability of a gap of zero,
    which the quantiles of a new observation contain, or None where no label was zero. `domain_p`
    is the p-value of the applicability domain, NaN where a structure has an unseen element; it is
    None where it was not computed. Raises InputError where the parts do not fit together.
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
    p_metal: Floats | None = None  # (n,)
    domain_p: Floats | None = None  # (n,)

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in (*TEXTS, *NUMBERS, P_METAL, DOMAIN_P):
            values = getattr(self, name)
            expected = (LEVELS.size, n) if name.startswith("quantiles") else (n,)
            shape = (len(values),) if isinstance(values, tuple) else np.shape(values)
            if values is not None and shape != expected:
                raise InputError(f"predictions: {name} has shape {shape}, expected {expected}.")
        unknown = sorted(set(self.status) - set(STATUSES))
        if unknown:
            raise InputError(
                f"predictions: status {unknown[0]!r}. Accepted: {', '.join(STATUSES)}."
            )
        wrong = np.flatnonzero(
            np.isfinite(self.mean_eV) == (np.asarray(self.status, dtype=object) == "refused")
        )
        if wrong.size:
            i = int(wrong[0])
            raise InputError(
                f"predictions: {self.ids[i]!r} is {self.status[i]} but its mean is "
                f"{self.mean_eV[i]} eV."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        frame = self.to_frame()[list(PRINTED)]
        return frame.to_string(index=False, max_rows=20, float_format="{:.2f}".format)

    def warning(self, row: int) -> str:
        """Return the warnings on one row: problems of the structure, then of the domain."""
        domain = self.domain[row]
        return "; ".join(filter(None, (self.problem[row], domain if domain != "ok" else "")))

    def interval(self, level: float, kind: IntervalKind = "prediction") -> tuple[Floats, Floats]:
        """Return the lower and upper ends (n,) in eV of the interval of `level`, not below zero.

        It is central, except where `p_metal` makes it begin at zero (`gap_distribution`). Between
        two stored quantiles the interpolation is linear in the normal score, which is exact for a
        normal distribution.

        Parameters
        ----------
        level
            Coverage of the interval, from 0.01 to 0.99.
        kind
            "prediction" for a new observation, "credible" for the mean, or "conformal".

        Raises
        ------
        ConfigError
            For another level or kind, and for a conformal interval of a run without held-back
            structures.
        InputError
            Where the run held back too few structures for the level.
        """
        check_level(level)
        check_kind(kind)
        if kind == "conformal":
            scores = available(self.conformal)
            lower, upper = scores.interval(level, mean=self.mean_eV, sd=self.sd_new_eV)
        else:
            p_zero = self.p_metal if kind == "prediction" else None
            stored = self.quantiles_new if kind == "prediction" else self.quantiles_mean
            lower, upper = (
                _at_probabilities(stored, ends, p_zero)
                for ends in interval_probabilities(level, p_zero, len(self))
            )
        return np.maximum(lower, 0.0), np.maximum(upper, 0.0)

    def window_probability(self, window: Window) -> Floats:
        """Return the probability (n,) that a new gap lies in a window; NaN for refused rows."""
        return window.probability(self.quantiles_new, LEVELS)

    def window_depth_eV(self, window: Window) -> Floats:
        """Return the expected depth (n,) in eV of a new gap in a window; NaN for refused rows."""
        return window.expected_depth_eV(self.quantiles_new, LEVELS)

    def to_frame(
        self,
        level: float = 0.95,
        kind: IntervalKind = "prediction",
        *,
        window: Window | None = None,
    ) -> "pd.DataFrame":
        """Return the table, one row for every row of the input, with the columns `COLUMNS`.

        `P_METAL` follows if the labels contained metals, then `DOMAIN_P`, and `WINDOW_COLUMNS` with
        a window.
        """
        import pandas as pd

        columns = self.to_columns(level, kind, window=window)
        return pd.DataFrame({name: _column(values) for name, values in columns.items()})

    def to_columns(
        self,
        level: float = 0.95,
        kind: IntervalKind = "prediction",
        *,
        window: Window | None = None,
    ) -> dict[str, Sequence[str] | Floats]:
        """Return the columns of the table by name, texts as sequences and numbers as
        arrays (n,).
        """
        lower, upper = self.interval(level, kind)
        sd = self.sd_mean_eV if kind == "credible" else self.sd_new_eV
        n = len(self)
        columns: dict[str, Sequence[str] | Floats] = {
            "id": self.ids,
            "file": self.files,
            "formula": self.formulas,
            "mean_eV": self.mean_eV,
            "sd_eV": sd,
            "lower_eV": lower,
            "upper_eV": upper,
            "level": np.full(n, float(level)),
            "interval": [kind] * n,
            "domain": self.domain,
            "status": self.status,
            "problem": self.problem,
            "level_of_theory": [self.level_of_theory] * n,
        }
        if self.p_metal is not None:
            columns[P_METAL] = self.p_metal
        if self.domain_p is not None:
            columns[DOMAIN_P] = self.domain_p
        if window is not None:
            values = ([str(window)] * n, self.window_probability(window))
            columns |= dict(zip(WINDOW_COLUMNS, values, strict=True))
        return columns

    def to_csv(
        self,
        path: Path | str | None = None,
        *,
        level: float = 0.95,
        kind: IntervalKind = "prediction",
        window: Window | None = None,
    ) -> str:
        """Return the table as CSV text and write it to `path` if one is given."""
        text = csv_of_columns(self.to_columns(level, kind, window=window))
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
    p_metal: Floats | None = None,
    domain_p: Floats | None = None,
    level: float | None = None,
) -> Predictions:
    """Summarise draws of a predictive distribution into `Predictions`.

    A new observation has the equal-weight mixture of normals N(centres[d], sds[d]^2), or, with
    `p_metal`, a `GapDistribution` of it.

    Parameters
    ----------
    means
        Draws of the mean, (draw, k), in eV, with one column for every row that is not refused.
    sds
        Standard deviations of the noise, (component,) or (component, k), in eV.
    ids, files, formulas, domain, status, problem
        Texts of the n rows, as in `Predictions`.
    centres
        Centres of the mixture, (component, k), in eV. Default: `means`.
    level_of_theory
        Method of the labels that the run was trained on.
    conformal
        Scores of the structures that the run held back.
    p_metal
        Probabilities (k,) of a gap of zero, or None where no label was zero.
    domain_p
        P-values of the applicability domain, (n,), or None.
    level
        The only level at which intervals are needed, None for all. Where that is faster, quantiles
        of a new observation that it does not need are then NaN.

    Raises
    ------
    InputError
        As `checked_mixture` and `Predictions`.
    """
    usable = np.flatnonzero(np.asarray(status, dtype=object) != "refused")
    mean_draws = np.asarray(means, dtype=np.float64)
    mixture_centres, mixture_sds = checked_mixture(mean_draws if centres is None else centres, sds)

    def scatter(values: Floats) -> Floats:
        full = np.full((*values.shape[:-1], len(status)), np.nan)
        full[..., usable] = values
        return full

    if p_metal is None:
        sd_new = mixture_sd(mixture_centres, mixture_sds)
        rows = slice(None) if level is None else _rows_of_level(level)
        quantiles_new = mixture_quantiles(mixture_centres, mixture_sds, LEVELS, needed_rows=rows)
    else:
        gaps = GapDistribution(mixture_centres, mixture_sds, p_metal)
        sd_new = gaps.sd_eV()
        quantiles_new = gaps.quantiles(LEVELS)
    return Predictions(
        ids=tuple(ids),
        files=tuple(files),
        formulas=tuple(formulas),
        domain=tuple(domain),
        status=tuple(status),
        problem=tuple(problem),
        mean_eV=scatter(by_structure(mean_draws).mean(axis=1)),
        sd_mean_eV=scatter(by_structure(mean_draws).std(axis=1)),
        sd_new_eV=scatter(sd_new),
        quantiles_mean=scatter(draw_quantiles(mean_draws, LEVELS)),
        quantiles_new=scatter(quantiles_new),
        level_of_theory=level_of_theory,
        conformal=conformal,
        p_metal=None if p_metal is None else scatter(p_metal),
        domain_p=None if domain_p is None else scatter(domain_p[usable]),
    )


def read_predictions_csv(source: Path | str | bytes) -> "pd.DataFrame":
    """Read a CSV of predictions as the table of `Predictions.to_frame`.

    Texts are those before protection against spreadsheet formulas. Numbers of refused rows are NaN.
    Unknown columns are read as text; `level_of_theory` may be absent. Between columns are commas,
    or semicolons or tabs, with which a spreadsheet may have written decimal commas.

    Parameters
    ----------
    source
        Path of the file, or its content.

    Raises
    ------
    InputError
        For a file that is not a table of predictions.
    """
    import pandas as pd

    name = "predictions" if isinstance(source, bytes) else str(source)
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        text = data.decode("utf-8-sig")
        if text[:4].lower() == "sep=":  # the first line of an export from Excel
            text = text.partition("\n")[2]
        first_line = text.partition("\n")[0]
        separator = max(_SEPARATORS, key=first_line.count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        header, *rows = [row for row in reader if row]
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise InputError(
            f"{name}: not a readable CSV table ({error}). Give the CSV that predict wrote."
        ) from error
    missing = [column for column in COLUMNS[:-1] if column not in header]
    if missing:
        raise InputError(
            f"{name}: column {missing[0]!r} is missing. Accepted: columns {', '.join(COLUMNS)}."
        )
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(
                f"{name}, row {line}: {len(row)} cells, expected {len(header)}. Was the file cut "
                "off?"
            )
    columns = (
        dict(zip(header, zip(*rows, strict=True), strict=True))
        if rows
        else dict.fromkeys(header, ())
    )
    has_decimal_commas = separator != ","
    return pd.DataFrame(
        {
            key: _parsed(key, cells, where=name, has_decimal_commas=has_decimal_commas)
            for key, cells in columns.items()
        }
    )


def _parsed(
    column: str, cells: Sequence[str], *, where: str, has_decimal_commas: bool
) -> "pd.Series[Any]":
    if column not in NUMBER_COLUMNS:
        return _column([rearm(cell) for cell in cells])
    if has_decimal_commas:
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        return _column(np.array([float(cell) if cell.strip() else np.nan for cell in cells]))
    except ValueError as error:
        raise InputError(
            f"{where}: column {column!r}: {error}. Accepted: numbers, empty where refused."
        ) from error


def _column(values: Any) -> "pd.Series[Any]":
    import pandas as pd

    if isinstance(values, np.ndarray):
        return pd.Series(values)
    return pd.Series(list(values), dtype="str")


def _rows_of_level(level: float) -> NDArray[np.intp]:
    """Return the rows of LEVELS that the ends of a central interval need."""
    right = _rows_above(np.concatenate(interval_probabilities(level, None, 1)))
    return np.unique([right - 1, right])


def _rows_above(probabilities: Floats) -> NDArray[np.intp]:
    """Return the row of LEVELS at or above each probability (n,)."""
    return np.clip(np.searchsorted(LEVELS, probabilities - 1e-9), 1, LEVELS.size - 1)


def _at_probabilities(stored: Floats, probabilities: Floats, p_zero: Floats | None) -> Floats:
    """Return the quantiles (n,) at probabilities (n,) from quantiles (199, n) at LEVELS, linear in
    the normal score.

    With `p_zero` (n,), quantiles up to this probability are zero, unless they are withheld (NaN).
    """
    right = _rows_above(probabilities)
    rows = np.arange(probabilities.size)
    at_left = LEVELS[right - 1]
    if p_zero is not None:
        # where the probability of zero ends between two stored ones, the quantile starts there
        at_left = np.where(p_zero < LEVELS[right], np.maximum(at_left, p_zero), at_left)
    clipped = np.clip(probabilities, LEVELS[0], LEVELS[-1])
    left_score = ndtri(at_left)
    fraction = (ndtri(clipped) - left_score) / (ndtri(LEVELS[right]) - left_score)
    result: Floats = stored[right - 1, rows] + fraction * (
        stored[right, rows] - stored[right - 1, rows]
    )
    if p_zero is None:
        return result
    return np.where((probabilities <= p_zero) & np.isfinite(stored[0]), 0.0, result)
