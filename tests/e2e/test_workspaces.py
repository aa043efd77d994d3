"""Workspaces in a browser: the list on Home, and the Back button."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import (
    PAGES,
    expect_no_faint_texts,
    expect_ready,
    expect_settled,
    picture,
)
from tests.e2e.conftest import Dashboard, Server

pytestmark = pytest.mark.browser

WIDE = 1280
PHONE = 400


def test_every_page_adds_one_entry_to_the_history_and_back_walks_them(
    page: Page, dashboard: Dashboard
) -> None:
    # Pages select a data set and a run, and write both to the address.
    page.goto(dashboard.at(ws=dashboard.sample.id))
    expect_ready(page, "Home")
    before = page.evaluate("history.length")
    titles = list(PAGES)
    for number, title in enumerate(titles[1:], start=1):
        page.get_by_role("link", name=title, exact=True).click()
        expect_ready(page, title)
        page.wait_for_function("ws => location.search.includes(ws)", arg=dashboard.sample.id)
        assert page.evaluate("history.length") - before == number, title
    page.wait_for_timeout(1000)  # a late entry would be one, too
    assert page.evaluate("history.length") - before == len(titles) - 1
    for title in reversed(titles[:-1]):
        page.go_back(wait_until="commit")
        expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
        page.wait_for_function("ws => location.search.includes(ws)", arg=dashboard.sample.id)


def test_choice_of_another_run_adds_no_entry(browser: Browser, dashboard: Dashboard) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(dashboard.at("result", ws=dashboard.sample.id, run=dashboard.sample.runs[0]))
        expect_ready(page, "Result")
        before = page.evaluate("history.length")
        address = page.url
        page.get_by_role("combobox").first.click()
        page.get_by_role("option").nth(1).click()
        page.wait_for_function("address => location.href !== address", arg=address)
        expect_ready(page, "Result")
        assert page.evaluate("history.length") == before


def test_workspace_is_renamed_and_offered_on_home(browser: Browser, server: Server) -> None:
    workspace, _ = server.new_workspace(name="crystals")
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(server.at(ws=workspace))
        expect_settled(page, "Home")
        page.get_by_text("This workspace has no name yet").click()
        page.get_by_label("Name", exact=True).fill("Perovskites *2026*")
        page.keyboard.press("Enter")
        expect(page.get_by_text("This workspace: Perovskites *2026*")).to_be_visible()
        page.close()
        page = context.new_page()
        page.goto(server.at())
        expect(page.get_by_text("Perovskites *2026*, last changed on")).to_be_visible()
        expect(page.get_by_test_id("stBaseButton-primary")).to_have_count(1)
        picture(page, f"home-continue-{WIDE}", width=WIDE)
        expect_no_faint_texts(page)
        picture(page, f"home-continue-{PHONE}", width=PHONE)
        page.get_by_role("button", name="Continue: 1 data set").first.click()
        page.wait_for_function("ws => location.search.includes(ws)", arg=workspace)
        expect(page.get_by_text("120 known gaps")).to_be_visible()
