"""Which measure of the domain to read first: the distance, or the p-value where it was better.

The areas were measured by `python -m benchmarks domain`; docs/explanation/applicability.md has the
whole table. Loads no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Measure = Literal["distance", "p-value"]


@dataclass(frozen=True)
class MeasuredSet:
    """Areas under the ROC curve of a set: unfamiliar against held-out structures.

    `auroc_p` is that of the p-value, `auroc_distance` that of the distance to the nearest
    structure.
    """

    name: str
    auroc_p: float
    auroc_distance: float


MEASURED: Final[Mapping[str, tuple[MeasuredSet, ...]]] = {
    "source network": (
        MeasuredSet("demo crystals with new elements", 0.997, 0.860),
        MeasuredSet("demo crystals with more nitrogen", 0.945, 0.966),
        MeasuredSet("organic crystals with new elements", 0.998, 0.888),
    ),
    "descriptor": (MeasuredSet("molecules for a run on perovskites", 0.995, 1.000),),
}
"""Sets by the features of the density, as the manifest of a run names them."""


Measured = Mapping[str, tuple[MeasuredSet, ...]]


def preferred_measure(features: str, measured: Measured = MEASURED) -> Measure:
    """Return the p-value where its mean area over sets with such features is larger.

    >>> preferred_measure("descriptor")
    'distance'
    """
    sets = measured.get(features, ())
    gain = sum(one.auroc_p - one.auroc_distance for one in sets)
    return "p-value" if gain > 0 else "distance"


def preference_sentence(features: str, measured: Measured = MEASURED) -> str:
    """Return which measure to read first for a run with such features, and why.

    >>> preference_sentence("descriptor")
    'Read the distance first: it told unfamiliar structures from held-out ones better than the \
p-value, or as well (AUROC 1.00 and 0.99 on molecules for a run on perovskites).'
    """
    sets = measured.get(features)
    if not sets:
        return "Read the distance first: it was not compared with the p-value on such features."
    if preferred_measure(features, measured) == "distance":
        areas = ", ".join(
            f"{one.auroc_distance:.2f} and {one.auroc_p:.2f} on {one.name}" for one in sets
        )
        return (
            "Read the distance first: it told unfamiliar structures from held-out ones better than "
            f"the p-value, or as well (AUROC {areas})."
        )
    areas = ", ".join(
        f"{one.auroc_p:.2f} and {one.auroc_distance:.2f} on {one.name}" for one in sets
    )
    return (
        "Read the p-value first: over all it told unfamiliar structures from held-out ones better "
        f"than the distance (AUROC of the p-value and of the distance: {areas})."
    )
