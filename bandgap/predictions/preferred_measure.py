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
        MeasuredSet("demo crystals", 0.53, 0.86),
        MeasuredSet("organic crystals", 0.56, 0.89),
    ),
    "descriptor": (MeasuredSet("perovskites", 1.00, 1.00),),
}
"""Sets by the features of the density, as the manifest of a run names them."""


Measured = Mapping[str, tuple[MeasuredSet, ...]]


def preferred_measure(features: str, measured: Measured = MEASURED) -> Measure:
    """Return the p-value where it was better on every set with such features, else the distance.

    >>> preferred_measure("source network")
    'distance'
    """
    sets = measured.get(features, ())
    is_better = bool(sets) and all(one.auroc_p > one.auroc_distance for one in sets)
    return "p-value" if is_better else "distance"


def preference_sentence(features: str, measured: Measured = MEASURED) -> str:
    """Return which measure to read first for a run with such features, and why.

    >>> preference_sentence("descriptor")
    'Read the distance first: it told unfamiliar structures from held-out ones better than the \
p-value, or as well (AUROC 1.00 against 1.00 on perovskites).'
    """
    if not measured.get(features):
        return "Read the distance first: it was not compared with the p-value on such features."
    areas = ", ".join(
        f"{one.auroc_distance:.2f} against {one.auroc_p:.2f} on {one.name}"
        for one in measured[features]
    )
    areas = f" (AUROC {areas})"
    if preferred_measure(features, measured) == "distance":
        return (
            "Read the distance first: it told unfamiliar structures from held-out ones better than "
            f"the p-value, or as well{areas}."
        )
    return (
        "Read the p-value first: it told unfamiliar structures from held-out ones better than the "
        f"distance{areas.replace('AUROC', 'AUROC of the distance and of the p-value:')}."
    )
