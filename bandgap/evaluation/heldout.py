"""Held-out structures of a stored run with predictions and known gaps, and figures at any level.

All figures are computed from the 199 stored quantiles, cut at zero; loads no torch. The CRPS of a
structure is twice the mean quantile loss over all probabilities (Gneiting and Raftery 2007, J. Am.
Stat. Assoc. 102, 359-378, section 4.2; Laio and Tamea 2007, Hydrol. Earth Syst. Sci. 11,
1267-1277). Here the
mean is over the stored probabilities, without the tails outside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.calibration import coverage_curve
from bandgap.evaluation.metrics import coverage, mae, mean_width, r2, rmse
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.store import QUANTILES, load_predictions
from bandgap.predictions.table import LEVELS, NUMBERS, TEXTS, Predictions

Floats = NDArray[np.float64]
Key = tuple[str, str]  # id and file of a structure


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of held-out structures and their known gaps (n,) in eV.

    Raises InputError unless every prediction has one finite gap.
    """

    predictions: Predictions
    gaps_eV: Floats

    def __post_init__(self) -> None:
        if self.gaps_eV.shape != (len(self.predictions),) or not np.isfinite(self.gaps_eV).all():
            raise InputError(
                f"held-out structures: {len(self.predictions)} predictions and gaps of shape "
                f"{self.gaps_eV.shape}. Accepted: one finite gap for each."
            )

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Id and file of every structure."""
        return tuple(zip(self.predictions.ids, self.predictions.files, strict=True))

    @property
    def errors_eV(self) -> Floats:
        """Predicted minus known gap, (n,)."""
        return self.predictions.mean_eV - self.gaps_eV

    def rows(self, rows: NDArray[np.int64]) -> "HeldOut":
        """Return these structures, in this order."""
        return HeldOut(rows_of(self.predictions, rows), self.gaps_eV[rows])


def tested_ids(manifest: Mapping[str, Any]) -> list[str]:
    """Return the ids of the structures on which the error of a run was measured.

    For a run that was refitted on all labels they are those that its parent held out.

    >>> tested_ids({"split": {"train": ["a"], "test": ["b"]}})
    ['b']
    >>> tested_ids({"split": {"train": ["a", "b"], "test": []}, "refit": {"test": ["b"]}})
    ['b']
    """
    refit = manifest.get("refit") or {}
    return list(refit.get("test") or manifest.get("split", {}).get("test", []))


def refit_sentence(manifest: Mapping[str, Any], *, parent: str) -> str:
    """Return whose test a run reports that was refitted on all labels; `parent` is its name.

    >>> refit_sentence({"n": 303, "refit": {"n": 212, "test": ["a"] * 91}}, parent="run")
    'Learned from all 303 labels. Error and coverage are those of run, which learned from 212 and \
was tested on 91 others.'
    """
    refit = manifest["refit"]
    return (
        f"Learned from all {manifest['n']:,} labels. Error and coverage are those of {parent}, "
        f"which learned from {refit['n']:,} and was tested on {len(refit['test']):,} others."
    )


def rows_of(predictions: Predictions, rows: NDArray[np.int64]) -> Predictions:
    """Return the predictions of these rows, in this order."""
    texts: dict[str, Any] = {
        name: tuple(getattr(predictions, name)[i] for i in rows) for name in TEXTS
    }
    numbers: dict[str, Any] = {name: getattr(predictions, name)[..., rows] for name in NUMBERS}
    if predictions.p_metal is not None:
        numbers["p_metal"] = predictions.p_metal[rows]
    if predictions.domain_p is not None:
        numbers["domain_p"] = predictions.domain_p[rows]
    return replace(predictions, **texts, **numbers)


def load_heldout(folder: Path, manifest: Mapping[str, Any]) -> HeldOut:
    """Return the held-out structures of a run, from its folder and its manifest.

    Raises
    ------
    InputError
        When the run held out no structures.
    ArtifactError
        When the stored predictions or the manifest are damaged or do not fit together.
    """
    ids = tested_ids(manifest)
    if not ids:
        raise InputError(
            "This run held out no structures, so nothing can be measured on it. Train again with "
            "some held out."
        )
    predictions = load_predictions(folder / QUANTILES)
    if list(predictions.ids) != ids:
        raise ArtifactError(
            f"{folder / QUANTILES}: not the predictions of the structures that the manifest names. "
            "Train the run again."
        )
    gaps = np.array(manifest.get("test_gaps_eV", ()), dtype=np.float64)
    if gaps.shape != (len(ids),):
        raise ArtifactError(
            f"{folder}: {gaps.size} known gaps for {len(ids)} held-out structures. Train the run "
            "again."
        )
    return HeldOut(predictions, gaps)


def figures_at(
    heldout: HeldOut, level: float, kind: IntervalKind = "prediction"
) -> dict[str, float]:
    """Return errors, CRPS, coverage and mean width (eV) at `level`, and the miscalibration area.

    R2 is NaN where all known gaps are equal. The area is that of the prediction intervals.
    """
    gaps = heldout.gaps_eV
    predictions = heldout.predictions
    lower, upper = predictions.interval(level, kind)
    return {
        "rmse_eV": rmse(gaps, predictions.mean_eV),
        "mae_eV": mae(gaps, predictions.mean_eV),
        "r2": r2(gaps, predictions.mean_eV) if np.ptp(gaps) > 0 else float("nan"),
        "crps_eV": float(crps_each(heldout).mean()),
        "coverage": coverage(gaps, lower, upper=upper),
        "width_eV": mean_width(lower, upper),
        "miscalibration": coverage_curve(
            gaps, predictions.quantiles_new, p_metal=predictions.p_metal
        ).miscalibration_area,
    }


def crps_each(heldout: HeldOut) -> Floats:
    """Return the CRPS (n,) in eV of every structure from its stored quantiles."""
    quantiles = np.maximum(heldout.predictions.quantiles_new, 0.0)
    above = heldout.gaps_eV - quantiles  # (199, n)
    losses = np.where(above >= 0, LEVELS[:, None] * above, (LEVELS[:, None] - 1.0) * above)
    result: Floats = 2.0 * losses.sum(axis=0) / (LEVELS.size + 1)
    return result
