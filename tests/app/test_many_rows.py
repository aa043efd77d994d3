"""The word on the page Train that proposes mini-batches: when, for whom, and with which time."""

import pytest

from app.components.train.many_rows import MINI_BATCH_METHOD, MANY_ROWS, mini_batch_hint
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import Work, estimate_transfer
from bandgap.transfer import METHODS

CATALOGUE = {name: MethodEntry(method.title) for name, method in METHODS.items()}
COSTS = {name: method.cost for name, method in METHODS.items()}


def hint(n, chosen=("btl_pcp_pe",), methods=CATALOGUE):
    return mini_batch_hint(n, chosen, methods, estimate_transfer(Work(MINI_BATCH_METHOD, n), COSTS))


def test_many_rows_are_told_of_mini_batches_with_a_time_that_does_not_grow_with_them():
    said = hint(MANY_ROWS + 1)
    assert (
        f"With more than 2,000 structures to learn from, add **{METHODS[MINI_BATCH_METHOD].title}**"
        in said
    )
    assert "Estimated time: about 4 min (" in said
    assert said == hint(100_000)


@pytest.mark.parametrize(
    "n, chosen, methods",
    [
        (MANY_ROWS, ("btl_pcp_pe",), CATALOGUE),
        (9_000, ("nptl", MINI_BATCH_METHOD), CATALOGUE),
        (9_000, ("nptl",), {"nptl": CATALOGUE["nptl"]}),
    ],
    ids=["few rows", "chosen already", "an older worker"],
)
def test_word_is_left_out_where_it_would_not_help(n, chosen, methods):
    assert hint(n, chosen, methods) == ""
