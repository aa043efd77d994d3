"""Near-copies across a split: how many test structures have one among those learned from.

An error on such structures says how well a method interpolates between copies, not how well it
predicts other structures.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.error_context import FEWEST, error_context, tiny_error_warning
from bandgap.evaluation.metrics import rmse

if TYPE_CHECKING:  # the dashboard imports this module without the packages of a table
    from bandgap.datasets.splits import Split
    from bandgap.datasets.table import Table
    from bandgap.structures.near_copies import NearCopies

NEAR_COPIES = "near_copy_share"  # a figure of a compared fit
CAUSE = "a near-copy among the structures learned from"
SMALLEST_SHARE = 0.05  # of the test structures, from which near-copies are named
MEANING = "the same reduced formula, and almost the same distances between atoms"
REMEDY = (
    "Test on formulas that were not learned from: `--by-formula` (on the page Train, Split by:"
    " whole formulas)."
)
ONE_FORMULA = "All structures have one formula, so that no split of them tests other compositions."

Floats = NDArray[np.float64]


def near_copy_facts(
    has_near_copy: NDArray[np.bool_], *, gaps_eV: Floats, predicted_eV: Floats
) -> dict[str, float]:
    """Return the number of test structures with a near-copy, and the error on the others.

    Parameters
    ----------
    has_near_copy
        Whether each test structure (n,) has a near-copy among the structures learned from.
    gaps_eV, predicted_eV
        Known and predicted gaps (n,) in eV.

    Returns
    -------
    dict
        `n_near_copies`, and `rmse_without_near_copies_eV` where some, and enough others, exist.
    """
    n_near = int(has_near_copy.sum())
    facts: dict[str, float] = {"n_near_copies": n_near}
    if n_near and len(gaps_eV) - n_near >= FEWEST:
        is_other = ~has_near_copy
        facts["rmse_without_near_copies_eV"] = rmse(gaps_eV[is_other], predicted_eV[is_other])
    return facts


def tested_facts(
    structures: "NearCopies",
    rows: Sequence[int],
    *,
    learned_rows: Sequence[int],
    gaps_eV: Floats,
    predicted_eV: Floats,
    mean_gap_eV: float,
) -> dict[str, float]:
    """Return how many structures an error rests on, and what it is compared with.

    Parameters
    ----------
    structures
        All structures.
    rows, gaps_eV, predicted_eV
        The n test structures, and their known and predicted gaps (n,) in eV.
    learned_rows, mean_gap_eV
        The structures learned from, and their mean gap in eV.
    """
    copies = structures.has_near_copy(rows, learned_rows)
    return {
        "n": len(rows),
        **error_context(gaps_eV, predicted_eV, mean_gap=mean_gap_eV),
        **near_copy_facts(copies, gaps_eV=gaps_eV, predicted_eV=predicted_eV),
    }


def tested_warnings(
    figures: Mapping[str, float], *, n_formulas: int, remedy: str = REMEDY
) -> list[str]:
    """Return the warnings on a test: near-copies among those learned from, and a tiny error.

    Parameters
    ----------
    figures
        `tested_facts` with the error `rmse_eV`.
    n_formulas
        Number of formulas of all structures.
    remedy
        What to do about near-copies.
    """
    near_copies = near_copies_sentence(figures, one_formula=n_formulas == 1, remedy=remedy)
    return list(filter(None, [near_copies, tiny_error_warning(figures)]))


def near_copy_share(table: "Table", split: "Split") -> float:
    """Return the share of a split's test rows with a near-copy among its other rows."""
    learned_from = [*split.train.tolist(), *split.held_back.tolist()]
    return float(table.near_copies.has_near_copy(split.test.tolist(), learned_from).mean())


def compared_copies_sentence(figures: Iterable[Mapping[str, float]]) -> str:
    """Return one sentence on near-copies in the splits of compared fits, "" if there are few.

    >>> compared_copies_sentence([{"near_copy_share": 1.0}, {"near_copy_share": 0.9}])[:48]
    'On average 95 % of the test structures of a spli'
    """
    shares = [values[NEAR_COPIES] for values in figures if NEAR_COPIES in values]
    share = sum(shares) / len(shares) if shares else 0.0
    if share < SMALLEST_SHARE:
        return ""
    return (
        f"On average {100 * share:.0f} % of the test structures of a split have a near-copy among"
        f" the structures learned from ({MEANING}), so that the errors say little about new"
        " compositions. Compare on formulas that were not learned from: `--by-formula`."
    )


def near_copies_sentence(
    tested: Mapping[str, float], *, one_formula: bool = False, remedy: str = REMEDY
) -> str:
    """Return one sentence on near-copies with their number and what to do, "" if there are few.

    `tested` are `tested_facts`. With `one_formula`, where all structures have the same one, no
    grouping is proposed.

    >>> near_copies_sentence({"n": 20, "n_near_copies": 18}).partition(" (")[0]
    '18 of 20 test structures have a near-copy among the structures learned from'
    """
    n_test = int(tested.get("n", 0))
    n_near = int(tested.get("n_near_copies", 0))
    rmse_of_others_eV = tested.get("rmse_without_near_copies_eV")
    if not n_test or n_near < SMALLEST_SHARE * n_test:
        return ""
    verb = "has" if n_near == 1 else "have"
    second_error = ""
    if rmse_of_others_eV is not None:
        second_error = f"; the RMSE of the {n_test - n_near:,} others is {rmse_of_others_eV:.3f} eV"
    return (
        f"{n_near:,} of {n_test:,} test structures {verb} {CAUSE} ({MEANING}), so"
        f" that the error says little about new compositions{second_error}."
        f" {ONE_FORMULA if one_formula else remedy}"
    )
