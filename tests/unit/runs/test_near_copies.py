"""What a run says about test structures with near-copies among those learned from."""

import numpy as np
import pytest

from bandgap.evaluation.near_copies import (
    near_copies_sentence,
    near_copy_facts,
)

GAPS = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def test_facts_have_the_error_of_the_structures_without_a_near_copy() -> None:
    predicted = GAPS + np.array([0.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    is_near = np.array([True, False, False, False, False, False])
    facts = near_copy_facts(is_near, gaps_eV=GAPS, predicted_eV=predicted)
    assert facts == {"n_near_copies": 1, "rmse_without_near_copies_eV": pytest.approx(1.0)}


def test_error_of_four_other_structures_is_not_stated() -> None:
    is_near = np.array([True, True, False, False, False, False])
    facts = near_copy_facts(is_near, gaps_eV=GAPS, predicted_eV=GAPS + 1)
    assert facts == {"n_near_copies": 2}


def test_sentence_has_the_numbers_the_other_error_and_the_option() -> None:
    text = near_copies_sentence({"n": 20, "n_near_copies": 3, "rmse_without_near_copies_eV": 0.81})
    assert text.startswith("3 of 20 test structures have a near-copy")
    assert "the RMSE of the 17 others is 0.810 eV" in text
    assert "`--by-formula`" in text


@pytest.mark.parametrize(("n_near", "n_test"), [(0, 20), (1, 21), (0, 0)])
def test_few_near_copies_need_no_sentence(n_near: int, n_test: int) -> None:
    assert near_copies_sentence({"n": n_test, "n_near_copies": n_near}) == ""
