"""Which structures of a batch are unusual by their p-values, and how many by chance.

Loads no torch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNUSUAL = 0.05  # p-value up to which a structure is called unusual
RATE = 0.1  # false discovery rate of a batch


def benjamini_hochberg(p: Floats, *, rate: float = RATE) -> NDArray[np.bool_]:
    """Return which of many p-values (n,) are flagged at a false discovery rate.

    NaN is never flagged (Benjamini and Hochberg 1995).
    """
    flagged = np.zeros(len(p), dtype=bool)
    usable = np.flatnonzero(np.isfinite(p))
    order = usable[np.argsort(p[usable], kind="stable")]
    limits = rate * np.arange(1, len(order) + 1) / max(len(order), 1)
    below = np.flatnonzero(p[order] <= limits)
    if below.size:
        flagged[order[: below[-1] + 1]] = True
    return flagged


def unusual_counts(p: Floats, status: Sequence[str]) -> tuple[int, int, int]:
    """Return the numbers of unusual, of assessed and of other predicted structures.

    Parameters
    ----------
    p
        P-values (n,), NaN where a structure is not assessable.
    status
        Status of every structure: ok, warning or refused.
    """
    is_assessed = np.isfinite(p)
    is_predicted = np.array([text != "refused" for text in status], dtype=bool)
    n_unusual = int((p <= UNUSUAL).sum())
    return n_unusual, int(is_assessed.sum()), int((is_predicted & ~is_assessed).sum())


def unusual_facts(p: Floats, status: Sequence[str]) -> dict[str, float | int | None]:
    """Return the counts of a batch for the file that describes its table.

    They are the unusual structures with the number expected by chance, and those at the
    false discovery rate, with the largest p-value among them.

    Parameters
    ----------
    p, status
        As in `unusual_counts`.
    """
    n_unusual, n_assessed, n_not_assessable = unusual_counts(p, status)
    is_flagged = benjamini_hochberg(p)
    return {
        "p_up_to": UNUSUAL,
        "n_unusual": n_unusual,
        "n_assessed": n_assessed,
        "n_not_assessable": n_not_assessable,
        "n_expected_by_chance": round(UNUSUAL * n_assessed, 6),
        "false_discovery_rate": RATE,
        "n_at_this_rate": int(is_flagged.sum()),
        "largest_p_at_this_rate": float(p[is_flagged].max()) if is_flagged.any() else None,
    }


def unusual_sentence(n_unusual: int, n_assessed: int, n_not_assessable: int) -> str:
    """Return in one sentence how many structures are unusual, and about how many by chance.

    >>> unusual_sentence(12, 300, 1)
    'Unusual among the structures learned from (domain_p up to 0.05): 12 of 300, where \
about 15 are expected by chance; 1 not assessable.'
    """
    expected = f"{UNUSUAL * n_assessed:.2g}"
    if UNUSUAL * n_assessed >= 10:
        expected = f"{UNUSUAL * n_assessed:,.0f}"
    remark = f"; {n_not_assessable:,} not assessable" if n_not_assessable else ""
    verb = "is" if expected == "1" else "are"
    return (
        f"Unusual among the structures learned from (domain_p up to {UNUSUAL:g}): {n_unusual:,} of "
        f"{n_assessed:,}, where about {expected} {verb} expected by chance{remark}."
    )


def discovery_sentence(p: Floats) -> str:
    """Return how many structures of the batch are flagged at the false discovery rate."""
    return flagged_sentence(int(benjamini_hochberg(p).sum()))


def flagged_sentence(n: int) -> str:
    """Return `discovery_sentence` for a number of flagged structures."""
    if not n:
        return f"At a false discovery rate of {100 * RATE:.0f} % none is unusual."
    return (
        f"At a false discovery rate of {100 * RATE:.0f} % (Benjamini and Hochberg) {n:,} "
        f"{'is' if n == 1 else 'are'} unusual, of which at most about {RATE * n:.2g} by chance."
    )
