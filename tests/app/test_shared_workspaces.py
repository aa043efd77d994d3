"""Pages of a workspace that is shared: for reading, for writing, withdrawn, and claimed."""

import uuid
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.people import claim, links, owner_of, share, withdraw
from bandgap.jobs.workspaces import open_workspace
from tests.app.conftest import MAIN, Workspace, labelled, texts
from tests.app.worlds import Owned

Visit = Callable[..., AppTest]

ALICE, BOB = "alice@example.org", "bob@example.org"
PAGES = sorted(path.stem for path in (MAIN.parent / "views").glob("*.py"))


@pytest.fixture
def workspace(worlds: tuple[Owned, Owned]) -> Workspace:
    return worlds[0].workspace


def opened(person: str, page: str = "home", **parameters: str) -> AppTest:
    """Open a page as a person who has logged in, nobody for ""."""
    at = AppTest.from_file(str(MAIN), default_timeout=30)
    at.user = {"is_logged_in": bool(person), "email": person}
    at.query_params.update(parameters)
    if page != "home":
        at.switch_page(f"views/{page}.py")
    at.run()
    assert not at.exception
    return at


def stored(workspace: Workspace) -> list[str]:
    """Return all rows of the store but those that say who has opened a link, and all files."""
    database = workspace.library.database
    tables = database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    names = {row["name"] for row in tables} - {"link_user"}
    return [
        str([tuple(row) for row in database.rows(f"SELECT * FROM {name}")])
        for name in sorted(names)
    ] + sorted(
        f"{path} {path.stat().st_mtime_ns}"
        for path in workspace.home.folder.rglob("*")
        if path.is_file() and not path.name.startswith(workspace.home.database.name)
    )


@pytest.mark.parametrize("page", PAGES)
def test_reader_sees_the_pages_and_changes_nothing(page: str, worlds: tuple[Owned, Owned]) -> None:
    alice, _ = worlds
    workspace = alice.workspace
    database = workspace.library.database
    secret = share(database, workspace.id, ALICE, may_write=False)
    opened(BOB, share=secret)
    addresses = {"ws": workspace.id, **alice.choices}
    before = stored(workspace)
    at = opened(BOB, page, **addresses)
    assert "shared with you for reading" in texts(at)
    for place in range(len(at.button)):
        # "Cancel" is no longer there when the running job of the test has had no heartbeat for long
        for button in opened(BOB, page, **addresses).button[place : place + 1]:
            if not button.disabled and button.label != "Start a new workspace":
                assert not button.click().run().exception
    assert stored(workspace) == before


def test_reader_is_not_told_what_the_owner_has_used(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.000001")
    secret = share(workspace.library.database, workspace.id, ALICE, may_write=False)
    assert "You have used" in texts(opened(ALICE, "about", ws=workspace.id))
    assert "You have used" not in texts(opened("carol@example.org", "about", share=secret))


def test_reader_who_becomes_a_writer_renames(workspace: Workspace) -> None:
    database = workspace.library.database
    reading = opened(BOB, share=share(database, workspace.id, ALICE, may_write=False))
    assert labelled(reading.text_input, "Name").disabled
    writing = opened(BOB, share=share(database, workspace.id, ALICE, may_write=True))
    labelled(writing.text_input, "Name").set_value("Ours").run()
    assert "This workspace: Ours" in writing.expander[-1].label
    assert "New link" not in str([button.label for button in writing.button])


def withdraw_link(workspace: Workspace) -> None:
    database = workspace.library.database
    (link,) = links(database, workspace.id)
    withdraw(database, workspace.id, owner_of(database, workspace.id), link.digest)


def test_withdrawn_link_closes_open_pages(workspace: Workspace) -> None:
    secret = share(workspace.library.database, workspace.id, ALICE, may_write=True)
    at = opened(BOB, share=secret)
    assert at.session_state["workspace"] == workspace.id and "share" not in at.query_params
    withdraw_link(workspace)
    for page in PAGES:
        at.switch_page(f"views/{page}.py").run()
        assert at.title[0].value == "No such workspace" and not at.exception
    assert opened(BOB, share=secret).title[0].value == "No such workspace"


def test_open_page_writes_no_more_after_the_link_was_withdrawn(
    worlds: tuple[Owned, Owned],
) -> None:
    _, bob = worlds
    workspace = bob.workspace
    opened(ALICE, share=share(workspace.library.database, workspace.id, BOB, may_write=True))
    renaming = opened(ALICE, ws=workspace.id)
    undoing = opened(ALICE, "train", ws=workspace.id, run=bob.runs[0])
    labelled(undoing.button, "Delete this run").click().run()
    withdraw_link(workspace)
    before = stored(workspace)
    labelled(renaming.text_input, "Name").set_value("Mine").run()
    labelled(undoing.button, "Undo").click().run()
    assert stored(workspace) == before
    for at in (renaming, undoing):
        assert at.title[0].value == "No such workspace" and not at.exception


def test_owner_shares_and_withdraws_on_home(workspace: Workspace) -> None:
    at = opened(ALICE, ws=workspace.id)
    labelled(at.button, "New link for reading").click().run()
    secret = at.code[0].value.partition("?share=")[2]
    assert opened(BOB, share=secret).session_state["workspace"] == workspace.id
    at.run()
    assert "For reading" in texts(at) and "1 user" in texts(at)
    labelled(at.button, "Withdraw").click().run()
    assert links(workspace.library.database, workspace.id) == []


def test_address_without_an_owner_is_claimed_once(workspace: Workspace) -> None:
    old = str(uuid.uuid4())
    open_workspace(workspace.library, old)
    first, second = opened(BOB, ws=old), opened(ALICE, ws=old)
    labelled(first.button, "Make this workspace mine").click().run()
    assert first.session_state["workspace"] == old
    labelled(second.button, "Make this workspace mine").click().run()
    assert second.title[0].value == "No such workspace"
    assert owner_of(workspace.library.database, old) == BOB
    assert not claim(workspace.library.database, old, ALICE)


def test_visitor_without_a_login_sees_the_login_alone(worlds: tuple[Owned, Owned]) -> None:
    alice, _ = worlds
    for page in PAGES:
        at = opened("", page, ws=alice.workspace.id, **alice.choices)
        assert [button.label for button in at.button] == ["Log in"] and len(at.main) == 3


def test_log_out_leads_to_the_login(workspace: Workspace) -> None:
    at = opened(ALICE, "about", ws=workspace.id)
    assert "You are alice" in texts(at)
    labelled(at.button, "Log out").click().run()
    assert at.title[0].value == "Log in" and not at.exception


@pytest.mark.parametrize("verified", [False, "false"])
def test_unverified_address_is_no_login(workspace: Workspace, verified: object) -> None:
    at = AppTest.from_file(str(MAIN), default_timeout=30)
    at.user = {"is_logged_in": True, "email": ALICE, "email_verified": verified}
    at.query_params["ws"] = workspace.id
    at.run()
    assert at.title[0].value == "Log in"
