"""Comparisons of the studies on PBP, SSPBP and generated graphs with their printed numbers."""

import pytest

from benchmarks.studies import results
from benchmarks.studies.study import Row
from benchmarks.studies.synthetic_graphs import QUANTITIES, _claim_on_densities
from benchmarks.studies.uci_networks import note_on_differences


@pytest.mark.parametrize(("n_seeds", "holds"), [(2, None), (6, True)])
def test_two_trainings_are_too_few_for_a_difference_of_four_errors(n_seeds, holds) -> None:
    # Printed for DeepGMG: 0.892 with an error of 0.022.
    row = Row(
        setting="barabasi-albert",
        method="with times",
        quantity=QUANTITIES["ks_density"],
        value=0.75,
        error=0.03,
    )
    assert _claim_on_densities([row], n_seeds).holds is holds


def test_stored_shares_would_disagree_if_they_were_one_percent_lower() -> None:
    rows = results.latest("pnn-3.2").result.rows
    exact = [row for row in rows if row.printed == 1 and row.error < 1e-5]
    assert len(exact) == 3
    for row in exact:
        assert row.agrees(3.0)
        assert not Row(**vars(row) | {"value": row.value - 0.01}).agrees(3.0)


def test_note_on_differences_is_that_of_the_stored_rows() -> None:
    result = results.latest("pnn-3.3").result
    assert note_on_differences(result.rows) in result.notes
    near = [Row(setting="", method="", quantity="", value=1.0, error=1.0, printed=1.5)] * 100
    far = [Row(setting="", method="", quantity="", value=1.0, error=0.1, printed=1.5)]
    assert note_on_differences(near + far).startswith("1 of 101 numbers")
    assert note_on_differences(near + far).endswith("it would be 5.")
