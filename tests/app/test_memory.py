"""Collection of cyclic garbage in the server of the pages."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.memory import collect_garbage


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _ordinary_collections() -> Iterator[None]:
    """Collections of the other tests of this process visit all objects."""
    yield
    gc.unfreeze()


def test_automatic_collections_do_not_visit_what_was_alive_at_the_last_cleaning() -> None:
    old = Cycle()
    collect_garbage()
    new = Cycle()
    visited = {id(value) for value in gc.get_objects()}
    assert id(old) not in visited
    assert id(new) in visited


def test_cycle_that_outlived_a_cleaning_is_freed_by_a_later_one() -> None:
    cycle = Cycle()
    reference = weakref.ref(cycle)
    collect_garbage()
    del cycle
    gc.collect()
    assert reference() is not None  # it was exempt
    collect_garbage()
    assert reference() is None
