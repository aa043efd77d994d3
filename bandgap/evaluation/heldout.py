"""Held-out structures of a stored run, its predictions of them and their known gaps; figures at any level.

Everything comes from the 199 stored quantiles and loads no torch. The CRPS of a structure is twice the mean quantile
loss over all probabilities (Gneiting and Raftery 2007, J. Am. Stat. Assoc. 102, 359-378, section 4.2; Laio and Tamea
2007, Hydrol. Earth Syst. Sci. 11, 1267-1277), here over the stored ones: what lies beyond the outermost is left out.
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
    """Predictions of held-out structures beside their known gaps (n,) in eV. Raises InputError on other lengths."""

    predictions: Predictions
    gaps_eV: Floats

    def __post_init__(self) -> None:
        if self.gaps_eV.shape != (len(self.predictions),) or not np.isfinite(self.gaps_eV).all():
            raise InputError(
                f"held-out structures: {len(self.predictions)} predictions and gaps of shape {self.gaps_eV.shape}. "
                "Accepted: one finite gap for each."
            )

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Id and file of every structure."""
        return tuple(zip(self.predictions.ids, self.predictions.files, strict=True))

    @property
    def errors_eV(self) -> Floats:
        """Predicted less known gap (n,)."""
        return self.predictions.mean_eV - self.gaps_eV

    def rows(self, rows: NDArray[np.int64]) -> "HeldOut":
        """Return these structures, in their order."""
        return HeldOut(rows_of(self.predictions, rows), self.gaps_eV[rows])


def rows_of(predictions: Predictions, rows: NDArray[np.int64]) -> Predictions:
    """Return the predictions of these rows, in their order."""
    texts: dict[str, Any] = {name: tuple(getattr(predictions, name)[i] for i in rows) for name in TEXTS}
    numbers: dict[str, Any] = {name: getattr(predictions, name)[..., rows] for name in NUMBERS}
    return replace(predictions, **texts, **numbers)


def load_heldout(folder: Path, manifest: Mapping[str, Any], *, known: Mapping[Key, float] | None = None) -> HeldOut:
    """Return the held-out structures of a run's folder with the gaps that its manifest has.

    Runs of an earlier version have none: those of `known` are then taken, and structures that it does not have left
    out. Raises ArtifactError when the stored predictions are damaged or not of these structures, InputError when the
    run held out none.
    """
    ids = list(manifest.get("split", {}).get("test", []))
    if not ids:
        raise InputError(
            "This run held out no structures, so nothing can be measured on it. Train again with some held out."
        )
    predictions = load_predictions(folder / QUANTILES)
    if list(predictions.ids) != ids:
        raise ArtifactError(
            f"{folder / QUANTILES}: not the predictions of the structures that the manifest names. Train the run again."
        )
    stored = manifest.get("test_gaps_eV")
    keys = zip(predictions.ids, predictions.files, strict=True)
    gaps = np.array([(known or {}).get(key, np.nan) for key in keys] if stored is None else stored, dtype=np.float64)
    if gaps.shape != (len(ids),):
        raise ArtifactError(
            f"{folder}: {gaps.size} known gaps for {len(ids)} held-out structures. Train the run again."
        )
    rows = np.flatnonzero(np.isfinite(gaps))
    if not rows.size:
        raise InputError(
            "None of this run's held-out structures has a known gap any more: its data set was deleted or got other "
            "labels. Train again to measure it."
        )
    return HeldOut(rows_of(predictions, rows), gaps[rows])


def figures_at(heldout: HeldOut, level: float, kind: IntervalKind = "prediction") -> dict[str, float]:
    """Return errors, CRPS, coverage and mean width (eV) at `level`, and the area between coverage curve and diagonal.

    R2 is NaN where all known gaps are the same. The area is that of the prediction intervals.
    """
    gaps, predictions = heldout.gaps_eV, heldout.predictions
    lower, upper = predictions.interval(level, kind)
    return {
        "rmse_eV": rmse(gaps, predictions.mean_eV),
        "mae_eV": mae(gaps, predictions.mean_eV),
        "r2": r2(gaps, predictions.mean_eV) if np.ptp(gaps) > 0 else float("nan"),
        "crps_eV": float(crps_each(heldout).mean()),
        "coverage": coverage(gaps, lower, upper=upper),
        "width_eV": mean_width(lower, upper),
        "miscalibration": coverage_curve(gaps, predictions.quantiles_new).miscalibration_area,
    }


def crps_each(heldout: HeldOut) -> Floats:
    """Return the CRPS (n,) in eV of every structure from its stored quantiles."""
    above = heldout.gaps_eV - heldout.predictions.quantiles_new  # (199, n)
    losses = np.where(above >= 0, LEVELS[:, None] * above, (LEVELS[:, None] - 1.0) * above)
    result: Floats = 2.0 * losses.sum(axis=0) / (LEVELS.size + 1)
    return result
