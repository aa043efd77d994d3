"""Studies at smoke scale agree with the printed numbers wherever their stored results do.

These are the studies whose smoke scale has the laws of the larger scales: fewer data sets, splits
or seeds, but the same sizes and settings. A row counts if it agrees in the stored result and is not
too uncertain to tell. If the printed numbers have the expectations of ours, all rows of a study
agree with probability 0.999 (Student's distribution, Bonferroni's inequality), and the draws of
`figure-2.1` pass their test of fit with the same probability. That is a false alarm in at most 1 %
of changes of the random numbers of all ten studies together. Seeds are fixed, so that a run without
such a change gives none.
"""

from dataclasses import replace

import pytest
from scipy.stats import norm

from benchmarks.studies.registry import STUDIES
from benchmarks.studies.results import latest
from benchmarks.studies.study import Result

pytestmark = pytest.mark.statistical

FALSE_ALARM = 0.001  # of each study
SEED = 0
WITHOUT_DATA = (
    "table-3.1",
    "table-3.2",
    "table-3.3",
    "table-3.4",
    "table-3.5",
    "pnn-3.1",
    "pnn-5.1",
)
WITH_UCI_SETS = ("pnn-3.2", "pnn-3.3")


def study_of(name):
    return next(study for study in STUDIES if study.name == name)


def key(row):
    return row.setting, row.method, row.quantity, row.reading


def agreeing_keys(result: Result):
    """Return the keys of the rows that agree and are not too uncertain to tell."""
    return {
        key(row)
        for row in result.compared_rows
        if row.agrees(result.quantile) and not row.is_too_uncertain(result.quantile)
    }


def disagreeing(result: Result, keys):
    """Return the rows with these keys that do not agree, and how many rows have them."""
    rows = [row for row in result.compared_rows if key(row) in keys]
    quantile = float(norm.isf(0.5 * FALSE_ALARM / len(rows)))
    return [row for row in rows if not row.agrees(quantile)], len(rows)


def assert_agrees(name):
    keys = agreeing_keys(latest(name).result)
    apart, n_rows = disagreeing(study_of(name).run("smoke", SEED), keys)
    assert n_rows > 0
    assert not apart, [
        f"{key(row)}: {row.value:g} ± {row.error:g} [{row.printed}]" for row in apart
    ]


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_smoke_run_agrees_where_the_stored_result_does(name):
    assert_agrees(name)


@pytest.mark.data
@pytest.mark.parametrize("name", WITH_UCI_SETS)
def test_smoke_run_on_uci_sets_agrees_where_the_stored_result_does(name, test_data, monkeypatch):
    monkeypatch.setenv("BANDGAP_TEST_DATA", str(test_data))
    assert_agrees(name)


def test_statements_on_the_prior_hold_where_those_of_the_stored_result_do():
    holding = [claim.text for claim in latest("figure-2.1").result.claims if claim.holds]
    claims = {claim.text: claim.holds for claim in study_of("figure-2.1").run("smoke", SEED).claims}
    assert holding and all(claims[text] is True for text in holding)


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_numbers_that_are_twice_too_large_are_noticed(name):
    """The tests above can fail. The printed errors of tables 3.4 and 3.5 hide smaller faults."""
    keys = agreeing_keys(latest(name).result)
    result = study_of(name).run("smoke", SEED)
    wrong = replace(result, rows=[replace(row, value=2.0 * row.value) for row in result.rows])
    assert disagreeing(wrong, keys)[0]
