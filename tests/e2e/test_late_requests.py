"""Requests of the browser that reach the server late, as on a slow connection or a busy server."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from tests.e2e.browsing import expect_ready
from tests.e2e.conftest import Server

pytestmark = pytest.mark.browser

BEGINS_S = 0.03  # a script has begun to run, and has not ended
LOOKS = 10  # at the new page, a tenth of a second apart


class SlowConnection:
    """A connection that holds back what fragments ask for, until another request was sent."""

    def __init__(self, page: Page) -> None:
        self.delayed_messages: list[str | bytes] = []
        page.route_web_socket(re.compile("_stcore/stream"), self._connect)

    def _connect(self, browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()

        def send(message: str | bytes) -> None:
            request = BackMsg.FromString(
                message if isinstance(message, bytes) else message.encode()
            )
            if request.rerun_script.fragment_id:
                self.delayed_messages.append(message)
                return
            server.send(message)
            time.sleep(BEGINS_S)
            while self.delayed_messages and request.WhichOneof("type") == "rerun_script":
                server.send(self.delayed_messages.pop())

        browser.on_message(send)


@pytest.mark.parametrize("way", ["link", "button"])
def test_request_of_a_fragment_after_the_page_was_left_leaves_the_new_page(
    way: str, page: Page, server: Server
) -> None:
    connection = SlowConnection(page)
    page.goto(server.address)
    expect_ready(page, "Home")
    # the report of the component that keeps the history
    wait_until(page, lambda: bool(connection.delayed_messages))
    if way == "link":
        page.get_by_role("link", name="Data", exact=True).click()
    else:  # the script switches to the page
        page.get_by_role("button", name="Train on gaps that I know").click()
    wait_until(page, lambda: not connection.delayed_messages)
    for _ in range(LOOKS):
        page.wait_for_timeout(100)
        expect_ready(page, "Data")
        expect(page.locator("input[type=file]").first).to_be_attached()


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for something that the page does; fail after a minute."""
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("nothing happened for a minute")
