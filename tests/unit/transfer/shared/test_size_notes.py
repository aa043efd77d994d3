"""What is said, or refused, before a fit to many rows."""

import sys

import pytest

from bandgap.foundation.errors import BudgetError
from bandgap.transfer import METHODS


@pytest.mark.parametrize("name", ["feature_gp", "kernel_ridge", "gaussian_process", "stacking"])
def test_fit_with_matrices_of_all_rows_grows_with_the_cube_from_a_thousand(name: str):
    cost = METHODS[name].cost
    assert cost.seconds(1000, None) == pytest.approx(cost.thousand_s)
    assert cost.seconds(200, None) == pytest.approx(cost.large_s)
    assert cost.seconds(12_000, None) == pytest.approx(12**3 * cost.thousand_s)


@pytest.mark.parametrize(
    ("name", "other"), [("kernel_ridge", "fresh_networks"), ("feature_gp", "last_layer_pcp")]
)
def test_time_and_memory_of_a_long_fit_are_said_with_a_method_that_fits(name: str, other: str):
    note = METHODS[name].note_on_size(8_000)
    assert note.startswith(f"{name} with 8,000 structures takes about ")
    assert "GB of memory" in note and f"or by {other}" in note
    assert METHODS[name].note_on_size(1_000) == METHODS[other].note_on_size(100_000) == ""


def test_time_of_a_long_fit_without_matrices_is_said_too():
    note = METHODS["btl_pcp_pe"].note_on_size(12_000)
    assert "takes about 1.0 hours of one core. Learn from fewer" in note


@pytest.mark.skipif(sys.platform != "linux", reason="memory of the machine is known on Linux")
def test_fit_whose_matrices_exceed_the_memory_of_the_machine_is_refused():
    with pytest.raises(BudgetError, match=r"This machine has .* GB\. Learn from fewer"):
        METHODS["gaussian_process"].note_on_size(1_000_000)
