"""Which source and which method are proposed to begin with, by what structures hold; read without torch.

By `python -m benchmarks crystals`: a transfer from the shipped molecules errs least on organic crystals, even where an
eighth of them hold elements that the molecules lack; on inorganic crystals and on perovskites methods without a source
do, also where a source of inorganic crystals is at hand.
"""

from typing import Final

MOST: Final = 0.8  # of the structures, whose elements a source must know to be proposed
WITH_SOURCE: Final = "btl_pcp_pe"
WITHOUT_SOURCE: Final = "stacking"


def knows_most(known: int, total: int) -> bool:
    """Return whether a source that knows all elements of `known` structures is proposed for `total`.

    >>> knows_most(2596, 2987), knows_most(0, 353)
    (True, False)
    """
    return known >= MOST * total


def proposed_method(*, transfers: bool) -> str:
    """Return the method that is proposed where there is a source, or none."""
    return WITH_SOURCE if transfers else WITHOUT_SOURCE
