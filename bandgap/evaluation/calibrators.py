"""Calibrators: the width of a run's intervals is corrected by held-out structures.

There are two kinds. Conformal: scores as in `conformal.py`, for an interval without model
assumptions. Variance scaling: one factor s on every predicted standard deviation, s^2 = mean(((gap
- mean) / sd)^2), which maximises the likelihood of normal errors (Laves et al. 2020,
Well-calibrated regression uncertainty in medical imaging with deep learning, sigma scaling). A
calibrator is fitted on one part of the held-out structures and measured on the other. It is stored
with the run, as `calibrator.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metrics import coverage, mean_width
from bandgap.foundation.config import from_dict
from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError, BandgapError, InputError
from bandgap.foundation.replacement import write_whole
from bandgap.predictions.conformal import ConformalScores, scores_of, smallest_calibration_set
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import Predictions
from bandgap.storage.manifests import CALIBRATOR as FILE

CalibratorKind = Literal["conformal", "variance"]

KINDS: tuple[CalibratorKind, ...] = get_args(CalibratorKind)
SCHEMA = 1
MIN_VARIANCE = 20  # structures: the standard error of the factor is then 1 / sqrt(2 n) = 16 %
MIN_TEST = 10  # structures on which the change is measured
REPORT_LEVELS = (0.5, 0.8, 0.9, 0.95)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """Coverage and mean width (eV) of intervals on the test part before and after calibration."""

    level: float
    coverage_before: float
    coverage_after: float
    width_before_eV: float
    width_after_eV: float


@dataclass(frozen=True)
class Calibrator:
    """A fitted calibrator.

    `ids` and `files` are those of the structures of the fit. `changes` are its effect on `n_test`
    other structures. `scores` (m,) are |gap - mean| / sd of a conformal calibrator, `factor` is
    that of variance scaling.
    """

    kind: CalibratorKind
    ids: tuple[str, ...]
    files: tuple[str, ...]
    seed: int
    n_test: int
    scores: tuple[float, ...] = ()
    factor: float = 1.0
    changes: tuple[Change, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def interval(self) -> IntervalKind:
        """The kind of interval that the calibrator gives or changes."""
        return "conformal" if self.kind == "conformal" else "prediction"

    @property
    def conformal(self) -> ConformalScores | None:
        """The scores of a conformal calibrator, else None."""
        if self.kind != "conformal":
            return None
        return ConformalScores(self.ids, np.array(self.scores, dtype=np.float64))

    @property
    def sentence(self) -> str:
        """A sentence on the kind of the calibrator and the number of its structures."""
        basis = f"it rests on {len(self):,} held-out crystals"
        if self.kind == "conformal":
            return (
                f"A conformal calibrator is stored with this model ({basis}): conformal intervals "
                "are those of it."
            )
        return (
            f"Variance scaling is stored with this model ({basis}): prediction intervals are "
            f"{self.factor:.2f} times as wide as the model alone would give."
        )

    def apply(self, predictions: Predictions) -> Predictions:
        """Return predictions of the same run with this calibrator's intervals; the mean does not
        change.

        Variance scaling scales the quantiles of a new observation about the mean. A conformal
        calibrator replaces the conformal scores of the run. Variance scaling does not change
        conformal intervals.
        """
        if self.kind == "conformal":
            return replace(predictions, conformal=self.conformal)
        run_scores = predictions.conformal
        mean = predictions.mean_eV
        return replace(
            predictions,
            sd_new_eV=self.factor * predictions.sd_new_eV,
            quantiles_new=mean + self.factor * (predictions.quantiles_new - mean),
            conformal=None
            if run_scores is None
            else ConformalScores(run_scores.ids, run_scores.scores / self.factor),
        )


def smallest_set(kind: CalibratorKind, *, level: float = 0.95) -> int:
    """Return the smallest number of structures for a calibrator, of kind conformal for intervals of
    `level`.

    >>> smallest_set("conformal", level=0.95), smallest_set("variance")
    (19, 20)
    """
    return smallest_calibration_set(level) if kind == "conformal" else MIN_VARIANCE


def fit_calibrator(
    heldout: HeldOut,
    kind: CalibratorKind,
    *,
    share: float = 0.5,
    seed: int = 0,
    level: float = 0.95,
) -> Calibrator:
    """Fit a calibrator on a part of the held-out structures, and measure it on the others.

    Parameters
    ----------
    heldout
        Held-out structures of a run.
    kind
        "conformal" or "variance".
    share
        Share of the structures to fit on, in (0, 1), drawn by `seed`.
    level
        Level of the conformal intervals that must be possible.

    Raises
    ------
    InputError
        Where a part is too small, with the number that is needed, for a share outside (0, 1), and
        for variance scaling where the labels contain metals.
    """
    if kind == "variance" and heldout.predictions.p_metal is not None:
        raise InputError(
            "variance scaling: the labels of this run contain metals, and a factor on the standard "
            "deviation does not describe a probability of a gap of zero. Choose a conformal "
            "calibrator."
        )
    if not 0.0 < share < 1.0:
        raise InputError(
            f"calibration share is {share:g}. Accepted: above 0 and below 1, such as 0.5."
        )
    n = round(share * len(heldout))
    n_needed = smallest_set(kind, level=level)
    if n < n_needed or len(heldout) - n < MIN_TEST:
        purpose = (
            f"a {100 * level:g} % conformal interval" if kind == "conformal" else "variance scaling"
        )
        purpose = purpose[:1].upper() + purpose[1:]
        raise InputError(
            f"{100 * share:.0f} % of {len(heldout)} held-out structures are {n} to calibrate and "
            f"{len(heldout) - n} to measure it on. {purpose} needs at least {n_needed} to "
            f"calibrate and {MIN_TEST} to measure: {n_needed + MIN_TEST} held-out structures. "
            f"{_remedy(len(heldout), n_needed)}"
        )
    order = np.random.default_rng(seed).permutation(len(heldout))
    calibration = heldout.rows(np.sort(order[:n]))
    test = heldout.rows(np.sort(order[n:]))
    predictions = calibration.predictions
    scores = scores_of(calibration.gaps_eV, mean=predictions.mean_eV, sd=predictions.sd_new_eV)
    calibrator = Calibrator(
        kind,
        predictions.ids,
        predictions.files,
        seed,
        len(test),
        scores=tuple(scores.tolist()) if kind == "conformal" else (),
        factor=float(np.sqrt(np.mean(scores**2))) if kind == "variance" else 1.0,
    )
    return replace(calibrator, changes=tuple(_changes(test, calibrator)))


def measured_part(heldout: HeldOut, calibrator: Calibrator) -> HeldOut:
    """Return the held-out structures that the calibrator was measured on."""
    calibration_keys = set(zip(calibrator.ids, calibrator.files, strict=True))
    test_rows = [i for i, key in enumerate(heldout.keys) if key not in calibration_keys]
    return heldout.rows(np.array(test_rows, dtype=np.int64))


def calibrated_part(heldout: HeldOut, calibrator: Calibrator) -> HeldOut:
    """Return the held-out structures of `measured_part`, with the calibrator applied."""
    part = measured_part(heldout, calibrator)
    return HeldOut(calibrator.apply(part.predictions), part.gaps_eV)


def variance_calibrated(heldout: HeldOut, calibrator: Calibrator | None) -> HeldOut | None:
    """Return what a variance calibrator is judged on, None with another one or none."""
    if calibrator is None or calibrator.kind != "variance":
        return None
    return calibrated_part(heldout, calibrator)


def save_calibrator(folder: Path, calibrator: Calibrator) -> None:
    """Write a calibrator to the folder of a run, atomically; it replaces an earlier one."""
    text = json.dumps(
        {"schema": SCHEMA, "artifact": "calibrator", **asdict(calibrator)},
        indent=1,
        allow_nan=False,
    )
    write_whole(folder / FILE, text + "\n")


def load_calibrator(folder: Path) -> Calibrator | None:
    """Return the calibrator in the folder of a run, or None.

    Raises ArtifactError where it is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        values = read_json(path)
        if values.pop("schema") != SCHEMA or values.pop("artifact") != "calibrator":
            raise ValueError(f"not a calibrator of schema {SCHEMA}")
        return _checked(values)
    except (*DAMAGE, BandgapError) as error:
        raise ArtifactError(
            f"{path}: not readable as a calibrator ({error}). The run itself is not touched; "
            "remove this file, or fit the calibrator again on the page Result."
        ) from error


def remove_calibrator(folder: Path) -> None:
    """Remove the calibrator from the folder of a run, which then has its original intervals."""
    (folder / FILE).unlink(missing_ok=True)


def _changes(test: HeldOut, calibrator: Calibrator) -> list[Change]:
    """Return the effect of the calibrator on other structures, at the levels that it supports."""
    before = test.predictions
    after = calibrator.apply(before)
    conformal = calibrator.kind == "conformal"
    levels = [
        level
        for level in REPORT_LEVELS
        if not conformal or len(calibrator) >= smallest_set("conformal", level=level)
    ]
    return [
        Change(
            level,
            *_coverage_and_width(
                test.gaps_eV, before.interval(level), after.interval(level, calibrator.interval)
            ),
        )
        for level in levels
    ]


def _coverage_and_width(
    gaps: Floats, before: tuple[Floats, Floats], after: tuple[Floats, Floats]
) -> tuple[float, float, float, float]:
    """Return coverage before and after, then mean width before and after."""
    return (
        coverage(gaps, before[0], upper=before[1]),
        coverage(gaps, after[0], upper=after[1]),
        mean_width(*before),
        mean_width(*after),
    )


def _remedy(n: int, n_required: int) -> str:
    if n >= n_required + MIN_TEST:
        smallest = 100 * n_required / n
        largest = 100 * (n - MIN_TEST) / n
        return f"Choose a share between {smallest:.0f} and {largest:.0f} %."
    return "Train again with more held out, or choose the other kind or a lower level."


def _checked(values: Mapping[str, Any]) -> Calibrator:
    """Return a calibrator from plain values; raises ConfigError or ValueError on others."""
    calibrator = from_dict(Calibrator, values)
    if not calibrator.ids or len(calibrator.files) != len(calibrator.ids):
        raise ValueError(f"it is of {len(calibrator)} structures")
    if not (np.isfinite(calibrator.factor) and calibrator.factor > 0):
        raise ValueError(f"factor {calibrator.factor}; accepted: a finite number above 0")
    return calibrator
