"""Tables on the probability of a metal of held-out structures."""

import dataclasses

import numpy as np
import pytest

from bandgap import plots
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metal_tables import confusion_table, p_metal_table
from bandgap.foundation.errors import InputError
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


def test_figure_has_a_point_for_each_group():
    table = p_metal_table(heldout_with(P))
    figure = plots.p_metal_figure(table)
    np.testing.assert_allclose(figure.data[-1].y, table["share_of_metals"])


def test_run_without_probability_is_refused():
    with pytest.raises(InputError, match="no probability of a metal"):
        p_metal_table(heldout_with(None))
