"""How many predicted structures there are of each status, and how they stand to the domain of the model.

Loads no torch.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from bandgap.predictions.table import Predictions

LIKE: Final = "like"  # names of counts by domain, beside those of the statuses
UNLIKE: Final = "unlike"
FAR: Final = "far"
ELEMENTS: Final = "elements"
OUTSIDE: Final = "outside"  # of the range that a baseline or electron levels were learned in


def counts_of(predictions: Predictions) -> Counter[str]:
    """Count rows by status, and by how they stand to the model's domain those that have a prediction."""
    counts = Counter(predictions.status)
    for text, rows in Counter(predictions.domain).items():  # few texts, of what may be many rows
        counts[LIKE] += rows * (text == "ok")
        counts[UNLIKE] += rows * (text not in ("", "ok"))
        counts[FAR] += rows * ("Farther from the training set" in text)
        counts[ELEMENTS] += rows * text.startswith("Contains ")
        counts[OUTSIDE] += rows * (" eV of the training set" in text)
    return counts


def domain_sentence(counts: Mapping[str, int]) -> str:
    """Say how the predicted structures stand to the domain; empty where all are like the training set."""
    return domain_counts(counts) if counts.get(UNLIKE) else ""


def domain_counts(counts: Mapping[str, int]) -> str:
    """Say how many predicted structures are like the training set, and how many are not."""
    like, far, elements, outside = (counts.get(name, 0) for name in (LIKE, FAR, ELEMENTS, OUTSIDE))
    beyond = f", {outside:,} with a baseline or levels outside its range" if outside else ""
    return (
        f"Domain: {like:,} like the training set, {far:,} far from it, {elements:,} with elements that it lacks or "
        f"hardly has{beyond}."
    )
