"""Coverage of held-out structures whose intervals are withheld, widened or as they are."""

import dataclasses

import numpy as np
import pytest

from bandgap.evaluation.changed_intervals import changed_coverage_sentence
from bandgap.evaluation.heldout import HeldOut
from bandgap.predictions.table import predictions_from_draws
from bandgap.predictions.withholding import IntervalChanges

N = 60


@pytest.fixture(scope="module")
def heldout() -> HeldOut:
    """Rows with a standard deviation of 0.1 eV; the first 12 are unusual and 3 sd off."""
    predictions = predictions_from_draws(
        np.full((2, N), 3.0),
        np.full(2, 0.1),
        ids=[f"s{k}" for k in range(N)],
        files=["x.cif"] * N,
        formulas=["H2O"] * N,
        domain=["ok"] * N,
        status=["ok"] * N,
        problem=[""] * N,
        domain_p=np.where(np.arange(N) < 12, 0.01, 0.5),
    )
    gaps_eV = np.full(N, 3.05)
    gaps_eV[:12] = 3.3
    gaps_eV[:2] = 3.0
    gaps_eV[-3:] = 4.0
    return HeldOut(predictions, gaps_eV)


def test_counts_are_those_of_both_kinds_of_rows_before_and_after(heldout: HeldOut) -> None:
    changes = IntervalChanges(widen_below_p=0.05, widen_factor=2.0)
    assert changed_coverage_sentence(heldout, changes, level=0.95) == (
        "95 % intervals of the held-out structures of this run contain the gap of 47 of 60 "
        "(78.3 %); with a domain_p of 0.05 or more, of 45 of 48 (93.8 %). Of the others: 2 of 12 "
        "as they are, 12 of 12 widened 2 times."
    )


def test_withheld_rows_are_not_counted_as_widened(heldout: HeldOut) -> None:
    changes = IntervalChanges(withhold_below_p=0.05)
    sentence = changed_coverage_sentence(heldout, changes, level=0.95)
    assert sentence.endswith("Of the others: 2 of 12 as they are.")


def test_few_remaining_rows_are_counted_and_rows_without_p_values_not_measured(
    heldout: HeldOut,
) -> None:
    changes = IntervalChanges(withhold_below_p=0.05)
    of_ten = changed_coverage_sentence(heldout.rows(np.arange(5, 20)), changes, level=0.95)
    assert "or more, of 8 of 8. Of the others" in of_ten
    of_none = changed_coverage_sentence(heldout.rows(np.arange(12)), changes, level=0.95)
    assert "contain the gap of 2 of 12; with a domain_p of 0.05 or more, of 0 of 0." in of_none
    without = HeldOut(dataclasses.replace(heldout.predictions, domain_p=None), heldout.gaps_eV)
    for nothing in (without, None):
        assert "is not measured" in changed_coverage_sentence(nothing, changes, level=0.95)
