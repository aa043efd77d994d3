"""Workspaces of people: claimed once, shared by links, closed again by withdrawing them."""

import uuid
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.database import Database
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.people import (
    claim,
    links,
    may_write,
    open_link,
    owner_of,
    share,
    withdraw,
    workspaces_of_person,
)

ANN, BOB, EVE = "ann@example.org", "bob@example.org", "eve"
WORKSPACE = str(uuid.uuid4())


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A workspace of Ann."""
    database = Database(tmp_path / "bandgap.sqlite3")
    assert claim(database, WORKSPACE, ANN)
    return database


def test_workspace_is_claimed_once(database: Database) -> None:
    assert not claim(database, WORKSPACE, EVE)
    assert owner_of(database, WORKSPACE) == ANN and owner_of(database, "another") == ""
    assert [may_write(database, WORKSPACE, who) for who in (ANN, EVE, "")] == [True, None, True]
    assert may_write(database, "another", ANN) is None


def test_link_gives_those_who_use_it_what_it_says_until_it_is_withdrawn(database: Database) -> None:
    reading, writing = (share(database, WORKSPACE, ANN, may_write=flag) for flag in (False, True))
    assert open_link(database, reading, BOB) == open_link(database, reading, BOB) == WORKSPACE
    assert may_write(database, WORKSPACE, BOB) is False
    open_link(database, writing, BOB)
    assert may_write(database, WORKSPACE, BOB) is True and workspaces_of_person(database, EVE) == []
    stored = links(database, WORKSPACE)
    assert [(link.may_write, link.users) for link in stored] == [(False, 1), (True, 1)]
    assert reading not in str(stored)
    withdraw(database, WORKSPACE, ANN, stored[1].digest)
    assert may_write(database, WORKSPACE, BOB) is False
    withdraw(database, WORKSPACE, ANN, stored[0].digest)
    assert may_write(database, WORKSPACE, BOB) is None and open_link(database, reading, BOB) == ""
    assert may_write(database, WORKSPACE, ANN) is True and links(database, WORKSPACE) == []


def test_reader_stores_no_file(tmp_path: Path) -> None:
    library = Library(Home(tmp_path))
    library.database.read_only = True
    with pytest.raises(InputError, match="for reading"):
        library.add_dataset(WORKSPACE, "mine", files=[("a.xyz", b"1\n\nH 0 0 0\n")])
    assert list((tmp_path / "uploads").glob("*")) == []


def test_only_the_owner_shares_and_withdraws(database: Database) -> None:
    open_link(database, share(database, WORKSPACE, ANN, may_write=True), BOB)
    (link,) = links(database, WORKSPACE)
    with pytest.raises(InputError, match="Only the owner"):
        share(database, WORKSPACE, BOB, may_write=False)
    with pytest.raises(InputError, match="Only the owner"):
        withdraw(database, WORKSPACE, BOB, link.digest)
    claim(database, "of Eve", EVE)
    withdraw(database, "of Eve", EVE, link.digest)
    assert links(database, WORKSPACE) == [link] and may_write(database, WORKSPACE, BOB) is True
