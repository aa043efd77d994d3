"""Calibrators: what held-out structures say about the width of a run's intervals, stored beside the run.

Two kinds. Conformal: scores as in `conformal.py`, an interval that assumes no model. Variance scaling: one factor s on
every predicted standard deviation, s^2 = mean(((gap - mean) / sd)^2), which maximises the likelihood of normal errors
(Laves et al. 2020, Well-calibrated regression uncertainty in medical imaging with deep learning, sigma scaling). The
fit uses one part of the held-out structures and is measured on the other. Written as `calibrator.json`; no pickle.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metrics import coverage, mean_width
from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError, BandgapError, InputError
from bandgap.predictions.conformal import ConformalScores, scores_of, smallest_calibration_set
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import Predictions

CalibratorKind = Literal["conformal", "variance"]

KINDS: tuple[CalibratorKind, ...] = get_args(CalibratorKind)
FILE = "calibrator.json"
SCHEMA = 1
MIN_VARIANCE = 20  # structures: the factor is then known to 1 / sqrt(2 n) = 16 %
MIN_TEST = 10  # structures on which the change is measured
REPORT_LEVELS = (0.5, 0.8, 0.9, 0.95)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """Coverage and mean width (eV) of the intervals of a level on the test part, before and after."""

    level: float
    coverage_before: float
    coverage_after: float
    width_before_eV: float
    width_after_eV: float


@dataclass(frozen=True)
class Calibrator:
    """A fitted calibrator, ids and files of the structures that it rests on, and what it changed on `n_test` others.

    `scores` (m,) are |gap - mean| / sd of a conformal calibrator, `factor` is that of variance scaling.
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
        """The kind of interval that it gives or changes."""
        return "conformal" if self.kind == "conformal" else "prediction"

    @property
    def conformal(self) -> ConformalScores | None:
        """The scores of a conformal calibrator, None of another."""
        return ConformalScores(self.ids, np.array(self.scores, dtype=np.float64)) if self.kind == "conformal" else None

    @property
    def sentence(self) -> str:
        """What is stored with the model, and on how many structures it rests."""
        rests = f"it rests on {len(self):,} held-out crystals"
        if self.kind == "conformal":
            return f"A conformal calibrator is stored with this model ({rests}): conformal intervals are those of it."
        return (
            f"Variance scaling is stored with this model ({rests}): prediction intervals are {self.factor:.2f} times "
            "as wide as the model alone would give."
        )

    def apply(self, predictions: Predictions) -> Predictions:
        """Return predictions of the same run with this calibrator's intervals; the mean does not change.

        Variance scaling widens the quantiles of a new observation about the mean. Conformal intervals of the run's own
        held-back structures give way to those of a conformal calibrator, and are the same under variance scaling.
        """
        if self.kind == "conformal":
            return replace(predictions, conformal=self.conformal)
        own = predictions.conformal
        mean = predictions.mean_eV
        return replace(
            predictions,
            sd_new_eV=self.factor * predictions.sd_new_eV,
            quantiles_new=mean + self.factor * (predictions.quantiles_new - mean),
            conformal=None if own is None else ConformalScores(own.ids, own.scores / self.factor),
        )


def smallest_set(kind: CalibratorKind, *, level: float = 0.95) -> int:
    """Return how many structures a calibrator of this kind must rest on, a conformal one for intervals of `level`.

    >>> smallest_set("conformal", level=0.95), smallest_set("variance")
    (19, 20)
    """
    return smallest_calibration_set(level) if kind == "conformal" else MIN_VARIANCE


def fit_calibrator(
    heldout: HeldOut, kind: CalibratorKind, *, share: float = 0.5, seed: int = 0, level: float = 0.95
) -> Calibrator:
    """Fit a calibrator on a share of the held-out structures, drawn by the seed, and measure it on the others.

    Raises InputError with the number that is needed where either part is too small, and for a share outside (0, 1).
    """
    if not 0.0 < share < 1.0:
        raise InputError(f"calibration share is {share:g}. Accepted: above 0 and below 1, such as 0.5.")
    n = round(share * len(heldout))
    needed = smallest_set(kind, level=level)
    if n < needed or len(heldout) - n < MIN_TEST:
        what = f"a {100 * level:g} % conformal interval" if kind == "conformal" else "variance scaling"
        raise InputError(
            f"{100 * share:.0f} % of {len(heldout)} held-out structures are {n} to calibrate and {len(heldout) - n} to "
            f"measure it on. {what[:1].upper() + what[1:]} needs at least {needed} to calibrate and {MIN_TEST} to "
            f"measure: {needed + MIN_TEST} held-out structures. {_remedy(len(heldout), needed)}"
        )
    order = np.random.default_rng(seed).permutation(len(heldout))
    fitted, test = heldout.rows(np.sort(order[:n])), heldout.rows(np.sort(order[n:]))
    predictions = fitted.predictions
    scores = scores_of(fitted.gaps_eV, mean=predictions.mean_eV, sd=predictions.sd_new_eV)
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
    used = set(zip(calibrator.ids, calibrator.files, strict=True))
    return heldout.rows(np.array([i for i, key in enumerate(heldout.keys) if key not in used], dtype=np.int64))


def save_calibrator(folder: Path, calibrator: Calibrator) -> None:
    """Write a calibrator beside the run in `folder`, whole or not at all; it replaces the one that is there."""
    text = json.dumps({"schema": SCHEMA, "artifact": "calibrator", **asdict(calibrator)}, indent=1, allow_nan=False)
    partial = folder / f"{FILE}.part"
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(folder / FILE)


def load_calibrator(folder: Path) -> Calibrator | None:
    """Return the calibrator of a run's folder, None where there is none; raises ArtifactError where it is damaged."""
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
            f"{path}: not readable as a calibrator ({error}). The run itself is not touched; remove this file, or fit "
            "the calibrator again on the page Calibration."
        ) from error


def remove_calibrator(folder: Path) -> None:
    """Remove the calibrator of a run's folder; the run's own intervals are shown again."""
    (folder / FILE).unlink(missing_ok=True)


def _changes(test: HeldOut, calibrator: Calibrator) -> list[Change]:
    """Return what the calibrator does on structures that it has not seen, at the levels that it reaches."""
    before, after = test.predictions, calibrator.apply(test.predictions)
    conformal = calibrator.kind == "conformal"
    reached = [k for k in REPORT_LEVELS if not conformal or len(calibrator) >= smallest_set("conformal", level=k)]
    return [
        Change(level, *_held(test.gaps_eV, before.interval(level), after.interval(level, calibrator.interval)))
        for level in reached
    ]


def _held(gaps: Floats, before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> tuple[float, ...]:
    ends = (before, after)
    return (*(coverage(gaps, low, upper=high) for low, high in ends), *(mean_width(low, high) for low, high in ends))


def _remedy(n: int, needed: int) -> str:
    if n >= needed + MIN_TEST:
        return f"Choose a share between {100 * needed / n:.0f} and {100 * (n - MIN_TEST) / n:.0f} %."
    return "Train again with more held out, or choose the other kind or a lower level."


def _checked(values: Mapping[str, Any]) -> Calibrator:
    """Return a calibrator from plain values; raises ValueError, TypeError or InputError on others."""
    changes: Sequence[Mapping[str, float]] = values["changes"]
    rows = {name: tuple(values[name]) for name in ("ids", "files", "scores")}
    found = Calibrator(**{**values, **rows, "changes": tuple(Change(**c) for c in changes)})
    if found.kind not in KINDS or not found.ids or len(found.files) != len(found.ids):
        raise ValueError(
            f"kind {found.kind!r} on {len(found)} structures; accepted: {', '.join(KINDS)} on at least one"
        )
    if found.conformal is None and not (np.isfinite(found.factor) and found.factor > 0):
        raise ValueError(f"factor {found.factor}; accepted: a finite number above 0")
    return found
