"""The three cards of methods: their roles, and the measured error of crystals like the target."""

import pytest

from bandgap.sources.measured_errors import MEAN_GAP_RMSE_EV, error_of
from bandgap.sources.method_cards import MethodCard, comparison_problem, method_cards
from bandgap.sources.proposed import Target, propose

ORGANIC = {("C", "H", "N"): 20}
PEROVSKITES = {("C", "H", "I", "N", "Pb"): 20}
SALTS = {("C", "Ca", "H", "O"): 20}
OXIDES = {("O", "Ti"): 20}


@pytest.mark.parametrize(
    ("elements", "level", "transfers", "methods"),
    [
        (ORGANIC, "PBE", True, ["feature_gp", "last_layer_ridge", "kernel_ridge"]),
        (ORGANIC, "GFN1-xTB", True, ["btl_pcp_pe", "feature_gp", "kernel_ridge"]),
        (PEROVSKITES, "HSE06", False, ["stacking", "gaussian_process", "kernel_ridge"]),
        (SALTS, "PBE", True, ["feature_gp", "last_layer_ridge", "kernel_ridge"]),
        (OXIDES, "PBE", False, ["stacking", "gaussian_process", "kernel_ridge"]),
    ],
    ids=["organic", "tight binding", "perovskites", "salts", "oxides"],
)
def test_cards_are_the_proposed_a_fast_and_a_baseline_method(elements, level, transfers, methods):
    target = Target(elements, level, 10)
    cards = method_cards(target, propose(target, transfers=transfers))
    assert [card.role for card in cards] == ["Recommended", "Fast", "Baseline"]
    assert [card.method for card in cards] == methods
    assert all(card.measured.measured_with(cards[0].measured) for card in cards)
    for card in cards:
        row = error_of(target.kind, card.method, has_source=transfers)
        assert card.error_eV == row.rmse_eV
        low, high = map(float, card.sentence.split()[1:4:2])
        assert low < row.rmse_eV < high
        assert f"over 3 splits (mean gap: {MEAN_GAP_RMSE_EV[target.kind]:.2f}" in card.sentence
        assert card.sentence.endswith(f"eV) on {target.kind} ({row.conditions}).")
    assert comparison_problem(cards) == ""


def test_many_rows_have_a_fast_method_that_takes_no_matrix_of_their_size():
    target = Target(ORGANIC, "PBE", 5_000)
    methods = [card.method for card in method_cards(target, propose(target, transfers=True))]
    assert methods == ["btl_pcp_pe", "last_layer_ridge", "kernel_ridge"]


def test_error_without_electron_levels_is_not_shown_for_a_proposal_with_them():
    target = Target(ORGANIC, "PBE", 10)
    cards = method_cards(target, propose(target, transfers=True, levels_installed=True))
    assert cards[0].sentence.startswith("RMSE 0.38 to 0.40 eV over 1 to 5 splits (mean gap: ")
    assert [card.error_eV for card in cards[1:]] == [None] * 2
    assert MethodCard("Fast", "x", None).sentence == ""


def test_error_with_levels_of_the_molecules_is_shown_where_it_was_measured():
    target = Target(PEROVSKITES, "HSE06", 10)
    cards = method_cards(target, propose(target, transfers=False, levels_installed=True))
    kind = "lead-iodide perovskites with hybrid gaps"
    mean = "(mean gap: 0.37 eV) on "
    without = f"{kind} (100 labelled, 100 held out, without levels of the molecules)."
    assert [card.sentence for card in cards] == [
        f"RMSE 0.16 to 0.20 eV over 5 splits {mean}{kind} (100 labelled, 103 held out, extras "
        "chgnet and xtb).",
        f"RMSE 0.22 to 0.24 eV over 3 splits {mean}{without}",
        f"RMSE 0.21 to 0.28 eV over 3 splits {mean}{without}",
    ]
    assert "Not comparable" in comparison_problem(cards)
