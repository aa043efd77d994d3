"""The next sensible step in a workspace: a pure function of what it holds."""

from dataclasses import dataclass
from typing import Literal

from components.shared import words
from components.shared.stores import MIN_LABELLED

Target = Literal["demo", "data", "train", "posterior", "predict"]


@dataclass(frozen=True)
class Holdings:
    """What a workspace holds: data sets, labelled structures of the best of them, jobs at work, finished runs."""

    datasets: int = 0
    structures: int = 0
    labelled: int = 0
    active: int = 0
    finished: int = 0
    predictions: int = 0


@dataclass(frozen=True)
class Step:
    """A sentence on what to do, the button's label, where it leads, and its icon."""

    text: str
    label: str
    target: Target
    icon: str


def next_step(holds: Holdings) -> Step | None:
    """Return the next step, or None while a job is at work: then there is something to wait for."""
    if holds.active:
        return None
    if not holds.datasets:
        return Step(
            "Start with the demo data: molecular crystals with known gaps, and a source model that was trained on "
            "other molecules. Or bring your own structures on the page Data.",
            "Use the demo data",
            "demo",
            ":material/science:",
        )
    if holds.labelled < MIN_LABELLED:
        return Step(
            f"A transfer learns from at least {MIN_LABELLED} structures of a data set with a known gap; the most so "
            f"far: {holds.labelled}.",
            "Give structures their gaps",
            "data",
            ":material/table_view:",
        )
    if not holds.finished:
        return Step(
            f"{words.count(holds.labelled, 'labelled structure')} can be learned from. Choose a method, and start.",
            "Start a transfer",
            "train",
            ":material/model_training:",
        )
    if not holds.predictions:
        return Step(
            "A model is ready. Predict the gaps of structures that have none, with an interval for each.",
            "Predict new structures",
            "predict",
            ":material/batch_prediction:",
        )
    return Step(
        "See which layers of the network moved, and whether the chains agree on it.",
        "Read the posterior",
        "posterior",
        ":material/ssid_chart:",
    )
