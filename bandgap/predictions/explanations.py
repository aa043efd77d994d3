"""Explanations of predictions: their nearest and weightiest labels, noise, model and elements.

Stored as JSON in the folder of a prediction. Loads no torch.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.replacement import write_whole

FORMAT = "bandgap-explanations-1"
FAR = 0.95  # share of the training set beyond which distance is named as a reason
ALIKE = 1.25  # ratio of two standard deviations up to which they are called equal
COLUMNS = ("id", "part", "name", "gap_eV", "distance", "weight", "change_eV", "change_error_eV")


@dataclass(frozen=True)
class LabelEffect:
    """One labelled structure behind a prediction.

    Attributes
    ----------
    id
        Its id.
    gap_eV
        Its label.
    distance
        1 - cosine between the descriptors.
    weight
        How much the prediction rises per eV of this label, None where the method has no weights.
    change_eV
        Prediction minus the one without this label, None as above.
    change_error_eV
        Standard error of `change_eV` from the number of draws, 0 where it is exact.
    """

    id: str
    gap_eV: float
    distance: float
    weight: float | None = None
    change_eV: float | None = None
    change_error_eV: float | None = None


@dataclass(frozen=True)
class Explanation:
    """The reasons of one prediction.

    Attributes
    ----------
    row
        Row of the structure in the input.
    id
        Its id.
    mean_eV
        Predicted gap, without a calibrator.
    noise_sd_eV, model_sd_eV
        Standard deviations of the scatter of labels and of the model's mean, also where the
        interval of a prediction is wider (`runs.new_structures`).
    percentile
        Share of training structures whose nearest neighbour is closer than that of this one.
    labels
        The labels with the largest weights, or the nearest where there are no weights.
    features
        Changes of the prediction in eV when features that an element or a block of the descriptor
        has are replaced by their mean over the training structures, by name, largest first.
    """

    row: int
    id: str
    mean_eV: float
    noise_sd_eV: float
    model_sd_eV: float
    percentile: float
    labels: tuple[LabelEffect, ...]
    features: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Explanations:
    """Explanations of several predictions by one run.

    `way` is "kernel" or "draws", "few draws" where there are too few for weights, or "" where the
    method has none. `typical_sd_eV` is the median of the model's standard deviation at the training
    structures. `share` is that of a pool whose methods have weights.
    """

    way: str
    share: float
    typical_sd_eV: float
    rows: tuple[Explanation, ...]

    def of_row(self, row: int) -> Explanation | None:
        """Return the explanation of a row of the input, None where it was not explained."""
        return next((explanation for explanation in self.rows if explanation.row == row), None)

    def table(self) -> dict[str, list[Any]]:
        """Return the columns of the CSV: one line for each label and each group of features."""
        lines: list[tuple[Any, ...]] = []
        for explained in self.rows:
            for label in explained.labels:
                numbers = (label.weight, label.change_eV, label.change_error_eV)
                filled = [math.nan if number is None else number for number in numbers]
                lines.append(
                    (explained.id, "label", label.id, label.gap_eV, label.distance, *filled)
                )
            nan = math.nan
            lines += [
                (explained.id, "features", name, nan, nan, nan, change, nan)
                for name, change in explained.features
            ]
            for name in ("noise", "model"):
                sd = explained.noise_sd_eV if name == "noise" else explained.model_sd_eV
                lines.append((explained.id, "sd", name, nan, nan, nan, sd, nan))
        return {name: [line[k] for line in lines] for k, name in enumerate(COLUMNS)}


def width_sentence(explanation: Explanation, *, typical_sd_eV: float) -> str:
    """Return what makes the interval of a prediction wide: noise, model or distance.

    >>> near = Explanation(0, "a", 1.5, 0.20, 0.05, 0.3, ())
    >>> print(width_sentence(near, typical_sd_eV=0.05))
    Mostly what the descriptor leaves open, also for known gaps: noise 0.20 eV, model 0.05 eV.
    """
    noise = explanation.noise_sd_eV
    model = explanation.model_sd_eV
    numbers = f"noise {noise:.2f} eV, model {model:.2f} eV"
    near = f"typically {typical_sd_eV:.2f} eV for those that it learned from"
    percent = f"{100 * explanation.percentile:.0f} %"
    if noise / ALIKE < model < ALIKE * noise:
        return f"What the descriptor leaves open and the model about equally: {numbers}."
    if model <= noise:
        reason = f"Mostly what the descriptor leaves open, also for known gaps: {numbers}."
        if explanation.percentile > FAR:
            reason += f" It is farther from the labels than {percent} of them are from each other."
        return reason
    if explanation.percentile > FAR:
        return (
            f"Mostly distance: {numbers} ({near}), and it is farther from the labels than {percent}"
            " of them are from each other."
        )
    return f"Mostly the model: {numbers} ({near}). More labels like this one would narrow it."


def save_explanations(path: Path, explanations: Explanations) -> None:
    """Write explanations as JSON, completely or not at all."""
    write_whole(path, json.dumps({"format": FORMAT, **asdict(explanations)}) + "\n")


def load_explanations(path: Path) -> Explanations | None:
    """Read the file of `save_explanations`, None where there is none.

    Raises ArtifactError where it is damaged.
    """
    if not path.is_file():
        return None
    try:
        values = read_json(path)
        if values.pop("format") != FORMAT:
            raise ValueError("another format")
        rows = tuple(map(_explanation, values.pop("rows")))
        return Explanations(rows=rows, **values)
    except DAMAGE as error:
        raise ArtifactError(
            f"{path}: not readable as explanations of predictions ({error}). Explain them again."
        ) from error


def _explanation(values: Mapping[str, Any]) -> Explanation:
    labels = tuple(LabelEffect(**label) for label in values["labels"])
    features = tuple((str(name), float(change)) for name, change in values["features"])
    return Explanation(**{**values, "labels": labels, "features": features})


def largest(names: Sequence[str], changes: Sequence[float]) -> tuple[tuple[str, float], ...]:
    """Return names with their changes, the largest magnitude first."""
    order = np.argsort(-np.abs(np.asarray(changes, dtype=float)), kind="stable")
    return tuple((names[k], float(changes[k])) for k in order)
