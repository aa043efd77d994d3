"""The word on the page Train that proposes mini-batches: when, for whom, and with which time."""

import pytest

from app.components.train.many_rows import MANY_ROWS, MINI_BATCH_METHOD, mini_batch_hint
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import Work, estimate_transfer
from bandgap.transfer import METHODS

CATALOGUE = {name: MethodEntry(method.title) for name, method in METHODS.items()}
COSTS = {name: method.cost for name, method in METHODS.items()}


def hint(n, picked=("btl_pcp_pe",), methods=CATALOGUE):
    return mini_batch_hint(n, picked, methods, estimate_transfer(Work(MINI_BATCH_METHOD, n), COSTS))


def test_hint_on_mini_batches_has_a_time_independent_of_the_rows():
    sentence = hint(MANY_ROWS + 1)
    assert (
        f"With more than 2,000 structures to learn from, add **{METHODS[MINI_BATCH_METHOD].title}**"
        in sentence
    )
    assert "Estimated time: about 4 min (" in sentence
    assert sentence == hint(100_000)


@pytest.mark.parametrize(
    "n, picked, methods",
    [
        (MANY_ROWS, ("btl_pcp_pe",), CATALOGUE),
        (9_000, ("nptl", MINI_BATCH_METHOD), CATALOGUE),
        (9_000, ("nptl",), {"nptl": CATALOGUE["nptl"]}),
    ],
    ids=["few rows", "chosen already", "method not in the catalogue"],
)
def test_hint_is_empty_where_it_would_not_help(n, picked, methods):
    assert hint(n, picked, methods) == ""
