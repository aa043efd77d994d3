"""What an error is worth: the mean gap as a prediction, and shifts."""

import numpy as np
import pytest

from bandgap.evaluation.error_context import error_context, error_sentences

RNG = np.random.default_rng(0)
OBSERVED = RNG.uniform(1.0, 6.0, size=40)


def sentences(predicted: np.ndarray) -> list[str]:
    context = error_context(OBSERVED, predicted, mean_gap=float(OBSERVED.mean()))
    rmse_eV = float(np.sqrt(np.mean((predicted - OBSERVED) ** 2)))
    return error_sentences(n=OBSERVED.size, rmse_eV=rmse_eV, context=context)


def test_context_has_the_error_of_the_mean_gap_and_the_sign() -> None:
    context = error_context(np.array([1.0, 3.0]), np.array([2.0, 3.5]), mean_gap=1.0)
    assert context == pytest.approx({"mean_gap_rmse_eV": 2**0.5, "signed_error_eV": 0.75})


@pytest.mark.parametrize(("shift", "side"), [(1.0, "above"), (-1.0, "below")])
def test_shift_is_named_with_its_side(shift: float, side: str) -> None:
    (sentence,) = sentences(OBSERVED + shift + RNG.normal(0, 0.1, size=40))
    assert f"eV {side} the known gaps: are these gaps of another level of theory" in sentence


def test_predictions_of_shuffled_gaps_are_no_better_than_the_mean() -> None:
    (sentence,) = sentences(RNG.permutation(OBSERVED))
    assert "nothing was learned beyond the mean" in sentence
