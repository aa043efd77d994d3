"""Requests of fragments that name a page which the user has left."""

from typing import Any

import pytest
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

from app.late_fragments import corrected

HOME, DATA = "home", "data"
FRAGMENTS: list[dict[str, Any]] = [{"fragment_id": "f"}, {"fragment_id_queue": ["f", "g"]}]


@pytest.mark.parametrize("timer", [True, False])
@pytest.mark.parametrize(("requested_page", "newest_page"), [(DATA, DATA), ("", DATA), (DATA, "")])
def test_fragment_of_the_newest_page_runs_as_it_is(
    requested_page: str, newest_page: str, timer: bool
) -> None:
    request = RerunData(page_script_hash=requested_page, fragment_id="f", is_auto_rerun=timer)
    assert corrected(request, page=newest_page) is request


@pytest.mark.parametrize("fragments", FRAGMENTS)
def test_fragment_of_the_page_before_becomes_a_request_for_the_new_page(
    fragments: dict[str, Any],
) -> None:
    request = RerunData(page_script_hash=HOME, query_string="ws=1", **fragments)
    expected = RerunData(page_script_hash=DATA, query_string="ws=1")
    assert corrected(request, page=DATA) == expected


@pytest.mark.parametrize("fragments", FRAGMENTS)
def test_timer_of_the_page_before_is_not_carried_out(fragments: dict[str, Any]) -> None:
    request = RerunData(page_script_hash=HOME, is_auto_rerun=True, **fragments)
    assert corrected(request, page=DATA) is None


def test_request_for_another_page_runs_as_it_is() -> None:
    request = RerunData(page_script_hash=HOME)
    assert corrected(request, page=DATA) is request
