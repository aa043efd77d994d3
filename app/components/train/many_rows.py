"""The word on the page Train where there are more structures to learn from than a sampler of all rows is made for."""

from collections.abc import Collection, Mapping
from typing import Final

from app.components.shared.estimate_words import estimate_sentence
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import Estimate

MANY_ROWS: Final = 2_000
BY_BATCHES: Final = "btl_pcp_sg"


def mini_batch_hint(
    n: int, chosen: Collection[str], methods: Mapping[str, MethodEntry], estimate: Estimate | None
) -> str:
    """Return the sentence that proposes the method by mini-batches, "" where it is chosen or there are few rows."""
    if n <= MANY_ROWS or BY_BATCHES in chosen or BY_BATCHES not in methods:
        return ""
    title = methods[BY_BATCHES].title
    return (
        f"With more than {MANY_ROWS:,} structures to learn from, add **{title}**: it samples the "
        "posterior of all layers from a few structures at a time, and one step takes as long "
        "however many there are. On 8,000 structures of QM9 its error was slightly below that of "
        "an ensemble of fine-tunings. Its chains converge slowly: use its intervals only if the "
        "chains agree. " + estimate_sentence({title: estimate})
    )
