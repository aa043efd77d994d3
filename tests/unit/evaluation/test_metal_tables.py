"""Tables on the probability of a metal of held-out structures."""

import dataclasses

import numpy as np
import pytest

from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metal_tables import (
    confusion_table,
    gap_if_no_metal,
    metal_scores,
    p_metal_table,
)
from tests.unit.evaluation.test_paired import normal_heldout

N = 400
RNG = np.random.default_rng(2)
P = RNG.uniform(0.02, 0.98, N)
IS_METAL = RNG.uniform(size=N) < P
GAPS = np.where(IS_METAL, 0.0, 2.0)


def heldout_with(probability: np.ndarray | None) -> HeldOut:
    plain = normal_heldout(np.zeros(N), 0.3, gaps=GAPS)
    return HeldOut(dataclasses.replace(plain.predictions, p_metal=probability), GAPS)


def test_shares_of_a_calibrated_probability_are_those_of_chance():
    table = p_metal_table(heldout_with(P))
    assert table["structures"].tolist() == [40] * 10
    assert table["p_metal"].is_monotonic_increasing
    outside = (table["share_of_metals"] < table["chance_lower"]) | (
        table["share_of_metals"] > table["chance_upper"]
    )
    assert outside.sum() <= 3  # of 10, each with a probability of 5 %
    wrong = p_metal_table(heldout_with(np.clip(P - 0.35, 0.01, 0.99)))
    assert ((wrong["share_of_metals"] > wrong["chance_upper"]).sum()) >= 5


def test_confusion_counts_every_structure_once():
    table = confusion_table(heldout_with(P)).set_index("known")
    assert table.to_numpy().sum() == N
    assert table.loc["metal", "predicted_metal"] == (IS_METAL & (P >= 0.5)).sum()
    assert table.loc["semiconductor", "predicted_metal"] == (~IS_METAL & (P >= 0.5)).sum()


def test_scores_are_those_of_both_classes_apart():
    p_metal = np.where(IS_METAL, 0.9, 0.2)
    p_metal[np.flatnonzero(IS_METAL)[:40]] = 0.3  # a tenth of all is called a semiconductor
    gap_if_none = np.where(IS_METAL, 1.0, np.where(np.arange(N) % 2, 2.3, 1.7))
    plain = normal_heldout((1 - p_metal) * gap_if_none - GAPS, 0.3, gaps=GAPS)
    heldout = HeldOut(dataclasses.replace(plain.predictions, p_metal=p_metal), GAPS)
    np.testing.assert_allclose(gap_if_no_metal(heldout.predictions), gap_if_none)
    scores = metal_scores(heldout)
    assert scores.share_right == 0.9 and scores.n_semiconductors == N - IS_METAL.sum()
    assert scores.rmse_eV == pytest.approx(0.3) and scores.mean_gap_rmse_eV == 0.0
    assert scores.majority == pytest.approx(max(IS_METAL.mean(), 1 - IS_METAL.mean()))
