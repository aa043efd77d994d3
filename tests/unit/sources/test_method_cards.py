"""The three cards of methods: their roles, and the measured error of crystals like the target."""

import pytest

from bandgap.sources.measured_errors import MEAN_GAP_RMSE_EV, error_of
from bandgap.sources.method_cards import basis_sentence, method_cards
from bandgap.sources.proposed import Target, propose
from bandgap.transfer import METHODS

ORGANIC = {("C", "H", "N"): 20}
PEROVSKITES = {("C", "H", "I", "N", "Pb"): 20}
SALTS = {("C", "Ca", "H", "O"): 20}
OXIDES = {("O", "Ti"): 20}


@pytest.mark.parametrize(
    ("elements", "level", "transfers", "second", "methods"),
    [
        (ORGANIC, "PBE", True, "Shows layers", ["feature_gp", "btl_pcp_pe", "fine_tune"]),
        (ORGANIC, "GFN1-xTB", True, "Fast", ["btl_pcp_pe", "feature_gp", "fine_tune"]),
        (PEROVSKITES, "HSE06", False, "Fast", ["stacking", "gaussian_process", "kernel_ridge"]),
        (SALTS, "PBE", True, "Shows layers", ["feature_gp", "btl_pcp_pe", "fine_tune"]),
        (OXIDES, "PBE", False, "Fast", ["stacking", "gaussian_process", "kernel_ridge"]),
    ],
    ids=["organic", "tight binding", "perovskites", "salts", "oxides"],
)
def test_cards_are_three_methods_with_errors_of_the_same_splits(
    elements, level, transfers, second, methods
):
    target = Target(elements, level, 10)
    cards = method_cards(target, propose(target, transfers=transfers))
    assert [card.role for card in cards] == ["Recommended", second, "Baseline"]
    assert [card.method for card in cards] == methods
    rows = [card.measured for card in cards if card.measured]
    assert rows[0] is cards[0].measured and all(row.measured_with(rows[0]) for row in rows)
    assert basis_sentence(cards) == (
        f"Errors (RMSE) as measured on {target.kind} ({rows[0].conditions}), not on your data. "
        f"Always guessing their mean gap gives {MEAN_GAP_RMSE_EV[target.kind]:.2f} eV."
    )


@pytest.mark.parametrize(
    ("transfers", "methods"),
    [
        (True, ["btl_pcp_pe", "last_layer_ridge", "fine_tune"]),
        (False, ["fresh_networks", "gradient_boosting", "random_forest"]),
    ],
)
def test_many_rows_have_methods_that_take_no_matrix_of_their_size(transfers, methods):
    target = Target(ORGANIC, "PBE", 5_000)
    cards = method_cards(target, propose(target, transfers=transfers))
    assert [card.method for card in cards] == methods
    assert not any(METHODS[card.method].cost.matrices for card in cards)


@pytest.mark.parametrize(("elements", "transfers"), [(ORGANIC, True), (PEROVSKITES, False)])
def test_error_without_electron_levels_is_not_shown_for_a_proposal_with_them(elements, transfers):
    target = Target(elements, "PBE", 10)
    proposal = propose(target, transfers=transfers, levels_installed=True)
    cards = method_cards(target, proposal)
    row = error_of(target.kind, cards[0].method, has_source=transfers, levels=proposal.levels)
    assert cards[0].measured is not None and cards[0].measured.levels == row.levels
    assert cards[2].measured is None


def test_cards_without_errors_have_no_basis():
    assert basis_sentence([]) == ""
