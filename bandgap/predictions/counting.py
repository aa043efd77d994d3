"""Counts of predicted structures by status and by their place in the applicability domain.

Loads no torch.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from bandgap.predictions.table import Predictions

LIKE: Final = (
    "like"  # names of the counts by domain; the counts by status have the names of the statuses
)
UNLIKE: Final = "unlike"
FAR: Final = "far"
ELEMENTS: Final = "elements"
OUTSIDE: Final = "outside"  # baseline or electron levels outside the range of the training set
LEARNED: Final = "learned"
LEARNED_FROM: Final = "The run learned from this structure"  # in the problem of such a row


def counts_of(predictions: Predictions) -> Counter[str]:
    """Count all rows by status, and the rows with a prediction by their place in the model's
    domain.
    """
    counts = Counter(predictions.status)
    for text, rows in Counter(predictions.domain).items():  # few distinct texts
        counts[LIKE] += rows * (text == "ok")
        counts[UNLIKE] += rows * (text not in ("", "ok"))
        counts[FAR] += rows * ("Farther from the training set" in text)
        counts[ELEMENTS] += rows * text.startswith("Contains ")
        counts[OUTSIDE] += rows * (" eV of the training set" in text)
    counts[LEARNED] = sum(LEARNED_FROM in text for text in predictions.problem)
    return counts


def domain_sentence(counts: Mapping[str, int]) -> str:
    """Return how many structures are outside the domain, or an empty text where all are inside."""
    return domain_counts(counts) if counts.get(UNLIKE) else ""


def domain_counts(counts: Mapping[str, int]) -> str:
    """Return in one sentence how many predicted structures are like the training set and how many
    are not.
    """
    like, far, elements, outside = (counts.get(name, 0) for name in (LIKE, FAR, ELEMENTS, OUTSIDE))
    unlike = counts.get(UNLIKE, 0)
    reasons = {
        "far from it": far,
        "with elements that it lacks or hardly has": elements,
        "with a baseline or levels outside its range": outside,
    }
    text = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    return f"Like the training set: {like:,}; unlike it: {unlike:,}{text and f' ({text})'}."
