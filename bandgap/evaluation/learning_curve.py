"""Learning curves: the error of one method against the number of labels, and its extrapolation.

The error of a method falls as a power law of the number of labels n over wide ranges,

    RMSE(n) = a + b * n^-c,   a, b >= 0

(Cortes et al. 1993, NIPS 6, 327-334; Hestness et al. 2017, arXiv:1712.00409). It is fitted to the
errors of a few fits, and its uncertainty is measured by a bootstrap over test structures and over
the draws of the smaller training sets.

The mean of a few squared errors rests on even fewer large ones, so that a bootstrap of m structures
is too narrow. The squares s count as m' = (sum s)^2 / sum s^2 structures (Kish 1965, Survey
Sampling, section 11.7). Deviations of the logarithms of bootstrap errors are widened from the
normal to Student's t distribution with m' - 1 degrees of freedom, by the factor
t sqrt(m' / (m' - 1)) / z of their quantiles.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError, BandgapError, InputError
from bandgap.foundation.replacement import write_whole
from bandgap.storage.manifests import LEARNING_CURVE

FILE: Final = LEARNING_CURVE
"""Name of the file in the folder of a run that the dashboard has measured."""

SCHEMA: Final = 1
COLUMNS: Final = ("n", "kind", "rmse_eV", "lower_eV", "upper_eV")
"""Columns of the table of a learning curve."""

MIN_LABELS: Final = 40  # the smallest of four fits then has 10
MIN_TEST: Final = 20  # with fewer the RMSE itself is uncertain by a sixth
MIN_SIZES: Final = 3  # as many as the law has parameters
N_SEEDS: Final = 3
N_SIZES: Final = 4
PROBABILITY: Final = 0.95  # of all intervals
EXPONENTS: Final = np.round(np.arange(0.05, 2.001, 0.05), 2)
"""Accepted exponents c: almost a logarithm at 0.05; 0.5 and 1 are rates of statistical theory."""

_DRAWS: Final = 500
_GRID: Final = 40  # points of the curve in figure and table
_LEAST_GAIN: Final = 0.01  # share of the error; a smaller gain is none
_FEWEST: Final = 3.0  # structures that squared errors count as, at least
_PERCENTILES: Final = (50 * (1 - PROBABILITY), 50 * (1 + PROBABILITY))

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Errors of one method at several numbers of labels, with a power law through them.

    Parameters
    ----------
    sizes
        Numbers of labels (size,), rising. The last is that of the run.
    rmse_eV
        RMSE (seed, size) on the same test structures, in eV. At one seed each training set contains
        the smaller ones. The last size is the run itself, the same for all seeds.
    n_test
        Number of test structures.
    lower_eV, upper_eV
        Bootstrap interval (size,) of the mean RMSE over the seeds.
    law
        Parameters a (eV), b (eV) and c of the power law a + b (n / n_last)^-c, (3,).
    laws
        The same of every bootstrap sample, (sample, 3).
    """

    sizes: tuple[int, ...]
    rmse_eV: Floats
    n_test: int
    lower_eV: Floats
    upper_eV: Floats
    law: Floats
    laws: Floats

    @property
    def n(self) -> int:
        """Number of labels of the run."""
        return self.sizes[-1]

    @property
    def usual_more(self) -> int:
        """Number of further labels to speak of: about half of those of the run, a round number.

        Examples
        --------
        >>> [round_number(n / 2) for n in (57, 200, 310, 1280)]
        [30, 100, 150, 600]
        """
        return round_number(self.n / 2)

    def at(self, n: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return the error (eV) that the power law gives at `n` labels, and its interval."""
        ratio = np.asarray(n, dtype=np.float64) / self.n
        lower, upper = np.percentile(_law_at(self.laws, ratio), _PERCENTILES, axis=0)
        return _law_at(self.law[None], ratio)[0], lower, upper

    def gain(self, more: int) -> tuple[float, float, float]:
        """Return by which share `more` labels lower the error, and the interval of the share."""
        ratio = np.array([1.0, (self.n + more) / self.n])
        now, then = _law_at(self.law[None], ratio)[0]
        ends = _law_at(self.laws, ratio)
        lower, upper = np.percentile(1.0 - ends[:, 1] / ends[:, 0], _PERCENTILES)
        return float(1.0 - then / now), float(lower), float(upper)

    def sentence(self, more: int | None = None) -> str:
        """Return what `more` labels would probably give.

        Raises InputError for fewer than one, and for more labels than the run has: a law that is
        fitted to n labels says little beyond twice as many.
        """
        more = self.usual_more if more is None else more
        if not 1 <= more <= self.n:
            raise InputError(
                f"learning curve: {more:,} more labels were asked for. Accepted: 1 to {self.n:,}, "
                "as many as the run has; an error farther away is a guess."
            )
        error, lower, upper = (float(value) for value in self.at(self.n + more))
        now = float(self.at(self.n)[0])
        _, least, most = self.gain(more)
        text = (
            f"{more:,} more labels: about {_eV(error)} eV ({_eV(lower)} to {_eV(upper)}); "
            f"with the {self.n:,} of now the same curve is at {_eV(now)} eV."
        )
        if least < _LEAST_GAIN:
            return f"{text} The measured errors do not show that more labels of this kind help."
        return f"{text} That is {100 * least:.0f} to {100 * most:.0f} % less."

    def table(self) -> pd.DataFrame:
        """Return the columns `COLUMNS`.

        Kind "fit" is a single fit, "mean" the mean over seeds with its interval, "power law" the
        law with its interval up to twice the labels of the run.
        """
        single = [
            {"n": n, "kind": "fit", "rmse_eV": error}
            for n, errors in zip(self.sizes, self.rmse_eV.T, strict=True)
            for error in dict.fromkeys(errors.tolist())
        ]
        mean = pd.DataFrame(
            {
                "n": self.sizes,
                "kind": "mean",
                "rmse_eV": self.rmse_eV.mean(axis=0),
                "lower_eV": self.lower_eV,
                "upper_eV": self.upper_eV,
            }
        )
        even = np.linspace(self.sizes[0], 2 * self.n, _GRID).round().astype(int)
        n = np.unique([*even.tolist(), self.n])
        error, lower, upper = self.at(n)
        values = {"n": n, "kind": "power law", "rmse_eV": error}
        law = pd.DataFrame({**values, "lower_eV": lower, "upper_eV": upper})
        fits = pd.DataFrame(single).assign(lower_eV=np.nan, upper_eV=np.nan)
        return pd.concat([fits, mean, law], ignore_index=True)[list(COLUMNS)]

    def to_values(self) -> dict[str, Any]:
        """Return the curve as JSON values."""
        arrays = ("rmse_eV", "lower_eV", "upper_eV", "law", "laws")
        return {
            "sizes": list(self.sizes),
            "n_test": self.n_test,
            **{name: getattr(self, name).tolist() for name in arrays},
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the curve of `to_values`. Raises InputError for other shapes."""
        names = ("rmse_eV", "lower_eV", "upper_eV", "law", "laws")
        arrays = {name: np.array(values[name], dtype=np.float64) for name in names}
        sizes = tuple(int(n) for n in values["sizes"])
        shapes = (arrays["rmse_eV"].shape[1:], arrays["laws"].shape[1:], arrays["law"].shape)
        if shapes != ((len(sizes),), (3,), (3,)) or not all(
            np.isfinite(array).all() for array in arrays.values()
        ):
            raise InputError(f"learning curve: {len(sizes)} sizes and arrays of shapes {shapes}.")
        return cls(sizes=sizes, n_test=int(values["n_test"]), **arrays)


def learning_curve_of(sizes: ArrayLike, errors_eV: Floats, *, seed: int = 0) -> LearningCurve:
    """Return the learning curve of measured errors.

    Parameters
    ----------
    sizes
        Numbers of labels (size,), rising.
    errors_eV
        Predicted minus known gap (seed, size, structure) of the same test structures, in eV.
    seed
        Seed of the bootstrap.

    Raises
    ------
    InputError
        For fewer than `MIN_SIZES` sizes, and for arrays that do not fit together.
    """
    numbers = np.asarray(sizes, dtype=np.int64)
    squares = np.asarray(errors_eV, dtype=np.float64) ** 2
    if squares.ndim != 3 or squares.shape[1] != numbers.size or not np.isfinite(squares).all():
        raise InputError(
            f"learning curve: {numbers.size} sizes and errors of shape {squares.shape}. Accepted: "
            "finite errors (seed, size, structure)."
        )
    if numbers.size < MIN_SIZES or (np.diff(numbers) <= 0).any() or numbers[0] < 1:
        raise InputError(
            f"learning curve: sizes {numbers.tolist()}. Accepted: at least {MIN_SIZES}, rising."
        )
    n_seeds, _, n_test = squares.shape
    rng = np.random.default_rng(seed)
    means = np.empty((_DRAWS, numbers.size))
    for draw in range(_DRAWS):
        structures = np.bincount(rng.integers(n_test, size=n_test), minlength=n_test)
        seeds = rng.integers(n_seeds, size=n_seeds)
        means[draw] = np.sqrt(squares[seeds] @ (structures / n_test)).mean(axis=0)
    rmse_eV = np.sqrt(squares.mean(axis=2))
    logs = np.log(means)
    deviations = _widening(squares.mean(axis=(0, 1))) * (logs - logs.mean(axis=0))
    means = rmse_eV.mean(axis=0) * np.exp(deviations)
    ratio = numbers / numbers[-1]
    lower, upper = np.percentile(means, _PERCENTILES, axis=0)
    return LearningCurve(
        sizes=tuple(numbers.tolist()),
        rmse_eV=rmse_eV,
        n_test=n_test,
        lower_eV=lower,
        upper_eV=upper,
        law=fit_power_law(ratio, rmse_eV.mean(axis=0)[None])[0],
        laws=fit_power_law(ratio, means),
    )


def _widening(squares: Floats) -> float:
    """Return the factor of bootstrap deviations over structures with these squared errors (n,)."""
    n = max(float(squares.sum() ** 2 / (squares**2).sum()), _FEWEST)
    probability = _PERCENTILES[1] / 100
    return float(stdtrit(n - 1, probability) / ndtri(probability) * np.sqrt(n / (n - 1)))


def fit_power_law(x: ArrayLike, y: Floats) -> Floats:
    """Fit y = a + b x^-c with a, b >= 0 and c in `EXPONENTS` by least squares of relative errors.

    For each exponent the best a and b follow in closed form; the exponent with the smallest sum of
    squares is taken. This has no starting point and no local minimum.

    Parameters
    ----------
    x
        Positive numbers (point,).
    y
        Positive values (curve, point) of one or several curves.

    Returns
    -------
    Floats
        The parameters a, b and c of every curve, (curve, 3).
    """
    powers = np.asarray(x, dtype=np.float64) ** -EXPONENTS[:, None]  # (exponent, point)
    ones = 1.0 / y[:, None, :]  # (curve, 1, point): the constant divided by y
    terms = powers * ones  # (curve, exponent, point)
    sum_11 = (ones**2).sum(-1)
    sum_12 = (ones * terms).sum(-1)
    sum_22 = (terms**2).sum(-1)
    sum_1 = ones.sum(-1)
    sum_2 = terms.sum(-1)
    determinant = sum_11 * sum_22 - sum_12**2
    with np.errstate(divide="ignore", invalid="ignore"):  # powers that are constant
        inner_a = (sum_1 * sum_22 - sum_2 * sum_12) / determinant
        inner_b = (sum_2 * sum_11 - sum_1 * sum_12) / determinant
    is_inside = (inner_a >= 0) & (inner_b >= 0) & np.isfinite(inner_a + inner_b)
    only_b = sum_2 / sum_22  # the best on the border a = 0
    only_a = np.broadcast_to(sum_1 / sum_11, only_b.shape)  # on the border b = 0
    zero = np.zeros_like(only_b)
    a = np.stack([np.where(is_inside, inner_a, 0.0), zero, only_a])
    b = np.stack([np.where(is_inside, inner_b, 0.0), only_b, zero])
    misfit = ((a[..., None] * ones + b[..., None] * terms - 1.0) ** 2).sum(-1)
    misfit[0][~is_inside] = np.inf
    kinds, curves, exponents = misfit.shape
    best = np.moveaxis(misfit, 1, 0).reshape(curves, -1).argmin(axis=1)
    kind, exponent = np.unravel_index(best, (kinds, exponents))
    curve = np.arange(curves)
    return np.stack(
        [a[kind, curve, exponent], b[kind, curve, exponent], EXPONENTS[exponent]], axis=1
    )


def check_numbers(n: int, n_test: int, *, what: str) -> None:
    """Raise InputError where a run has too few labels for a learning curve."""
    if n < MIN_LABELS:
        raise InputError(
            f"{what} learned from {n:,} labels. A learning curve needs at least {MIN_LABELS}: its "
            "smallest fit takes a quarter of them. Train with more labels."
        )
    if n_test < MIN_TEST:
        raise InputError(
            f"{what} was tested on {n_test:,} structures. A learning curve needs at least "
            f"{MIN_TEST}: with fewer, chance moves the error more than labels do. Train with more "
            "structures held out."
        )


def sizes_of(n: int, n_sizes: int = N_SIZES) -> tuple[int, ...]:
    """Return evenly spaced numbers of labels up to `n`.

    Examples
    --------
    >>> sizes_of(200)
    (50, 100, 150, 200)
    """
    return tuple(round(n * (k + 1) / n_sizes) for k in range(n_sizes))


def round_number(value: float) -> int:
    """Return the nearest of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten, at least 1.

    Examples
    --------
    >>> [round_number(value) for value in (0.2, 7, 12, 103, 640)]
    [1, 6, 10, 100, 600]
    """
    scale = 10.0 ** np.floor(np.log10(max(value, 1.0)))
    steps = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0])
    return max(1, int(scale * steps[np.abs(steps - value / scale).argmin()]))


def save_curve(path: Path, curve: LearningCurve) -> None:
    """Write a learning curve as JSON, atomically; it replaces an earlier one."""
    text = json.dumps({"schema": SCHEMA, "artifact": "learning curve", **curve.to_values()})
    write_whole(path, text + "\n")


def load_curve(path: Path) -> LearningCurve | None:
    """Return a stored learning curve, None where there is no file.

    Raises ArtifactError where it is damaged.
    """
    if not path.is_file():
        return None
    try:
        values = read_json(path)
        if (values["schema"], values["artifact"]) != (SCHEMA, "learning curve"):
            raise InputError(f"not a learning curve of schema {SCHEMA}")
        return LearningCurve.of(values)
    except (*DAMAGE, BandgapError) as error:
        raise ArtifactError(
            f"{path}: not readable as a learning curve ({error}). The run itself is not touched; "
            "remove this file, or measure the curve again."
        ) from error


def _law_at(laws: Floats, ratio: Floats) -> Floats:
    """Return the values (law, ...) of power laws (law, 3) at shares of the labels of the run."""
    shape = (-1,) + (1,) * ratio.ndim
    a, b, c = (column.reshape(shape) for column in laws.T)
    return np.asarray(a + b * ratio**-c, dtype=np.float64)


def _eV(value: float) -> str:
    """Return an error with two decimals, three where it is small."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
