"""Studies at smoke scale agree with the printed numbers wherever their stored results do.

These are the studies whose smoke scale has the laws of the larger scales: fewer data sets, splits
or seeds, but the same sizes and settings. What counts is each column of a table that agrees in the
stored result, and each statement that holds there. If the printed numbers have the expectations of
ours, the columns of a study all pass with probability 0.999 (Bonferroni's inequality). Seeds are
fixed, so that a run without a change of the random numbers gives no false alarm.
"""

import pytest

from benchmarks.studies.registry import STUDIES
from benchmarks.studies.results import latest
from benchmarks.studies.study import Fault, Result, compared

pytestmark = pytest.mark.statistical

FALSE_ALARM = 0.001  # of each study
SEED = 0
NAMES = (
    "figure-2.1",
    "table-3.1",
    "table-3.2",
    "table-3.3",
    "pnn-3.1",
    "pnn-5.1",
)


def study_of(name):
    return next(study for study in STUDIES if study.name == name)


def columns_of(result: Result):
    """Return the rows of every method of a table."""
    columns = {}
    for row in result.rows:
        if row.printed is not None and not row.reading:
            columns.setdefault((row.table, row.method), []).append(row)
    return columns


def agreeing(result: Result):
    """Return the columns and statements that agree."""
    columns = {
        key for key, rows in columns_of(result).items() if compared(rows).verdict == "agrees"
    }
    return columns | {one.text for one in result.statements if one.verdict == "agrees"}


def differing(result: Result, keys):
    """Return which of these columns and statements differ."""
    false_alarm = FALSE_ALARM / len(keys)
    columns = {
        key
        for key, rows in columns_of(result).items()
        if compared(rows, false_alarm=false_alarm).verdict == "differs"
    }
    statements = {one.text for one in result.statements if one.verdict == "differs"}
    return (columns | statements) & keys


@pytest.mark.parametrize("name", NAMES)
def test_smoke_run_agrees_where_the_stored_result_does(name):
    keys = agreeing(latest(study_of(name)).result)
    assert keys and not differing(study_of(name).run("smoke", SEED), keys)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_twice_too_large_are_noticed(name):
    """The tests above can fail."""
    wrong = Fault(text="", factor=2.0).applied(study_of(name).run("smoke", SEED))
    assert differing(wrong, agreeing(latest(study_of(name)).result))
