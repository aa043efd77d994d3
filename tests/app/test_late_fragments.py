"""Requests of fragments that name a page which the user has left."""

import pytest
from streamlit.proto.ClientState_pb2 import ClientState

from app.late_fragments import PageRequests

HOME, DATA, TRAIN = "home", "data", "train"


def request(page: str, *, fragment: str = "", timer: bool = False) -> ClientState:
    return ClientState(page_script_hash=page, fragment_id=fragment, is_auto_rerun=timer)


@pytest.mark.parametrize("timer", [True, False])
@pytest.mark.parametrize("page", [DATA, ""])
def test_fragment_of_the_shown_page_runs_as_it_is(page: str, timer: bool):
    requests = PageRequests()
    assert requests.is_wanted(request(DATA), shown_page=HOME)
    fragment = request(page, fragment="f", timer=timer)
    assert requests.is_wanted(fragment, shown_page=DATA)
    assert (fragment.fragment_id, fragment.page_script_hash) == ("f", page)


@pytest.mark.parametrize("shown_page", [HOME, DATA], ids=["not begun", "begun"])
def test_fragment_of_the_page_before_becomes_a_request_for_the_new_page(shown_page: str):
    requests = PageRequests()
    assert requests.is_wanted(request(DATA), shown_page=HOME)
    late = request(HOME, fragment="f")
    assert requests.is_wanted(late, shown_page=shown_page)
    assert (late.fragment_id, late.page_script_hash) == ("", DATA)


def test_timer_of_the_page_before_is_not_carried_out():
    requests = PageRequests()
    requests.is_wanted(request(DATA), shown_page=HOME)
    assert not requests.is_wanted(request(HOME, fragment="f", timer=True), shown_page=HOME)


def test_fragment_of_a_page_that_the_script_itself_switched_to_runs_as_it_is():
    requests = PageRequests()
    requests.is_wanted(request(HOME), shown_page=HOME)
    fragment = request(TRAIN, fragment="f")  # after st.switch_page
    assert requests.is_wanted(fragment, shown_page=TRAIN)
    assert fragment.fragment_id == "f"


def test_request_of_a_session_without_a_page_runs_as_it_is():
    fragment = request(HOME, fragment="f")
    assert PageRequests().is_wanted(fragment, shown_page="")
    assert fragment.fragment_id == "f"


def test_fragment_after_the_first_request_runs_as_it_is():
    requests = PageRequests()
    requests.is_wanted(request(""), shown_page="")  # the address names the page
    fragment = request(DATA, fragment="f")
    assert requests.is_wanted(fragment, shown_page=HOME)
    assert (fragment.fragment_id, fragment.page_script_hash) == ("f", DATA)
