"""The hint on the page Train to sample by mini-batches when there are many structures."""

from collections.abc import Collection, Mapping
from typing import Final

from app.components.shared.estimate_words import estimate_sentence
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import Estimate

MANY_ROWS: Final = 2_000
MINI_BATCH_METHOD: Final = "btl_pcp_sg"


def mini_batch_hint(
    n: int, picked: Collection[str], methods: Mapping[str, MethodEntry], estimate: Estimate | None
) -> str:
    """Return the hint to add the method by mini-batches.

    It is empty if the method is among the `picked` ones, or if `n`, the number of structures to
    learn from, is at most `MANY_ROWS`.
    """
    if n <= MANY_ROWS or MINI_BATCH_METHOD in picked or MINI_BATCH_METHOD not in methods:
        return ""
    title = methods[MINI_BATCH_METHOD].title
    return (
        f"With more than {MANY_ROWS:,} structures to learn from, add **{title}**: it samples the "
        "posterior of all layers from a few structures at a time, and one step takes as long "
        "however many there are. On 8,000 structures of QM9 its error was slightly below that of "
        "an ensemble of fine-tunings. Its chains converge slowly: use its intervals only if the "
        "chains agree. " + estimate_sentence({title: estimate})
    )
