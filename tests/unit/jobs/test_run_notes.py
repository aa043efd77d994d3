"""Notes and tags of runs: what is stored, what is refused."""

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.database import Database
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.run_notes import MAX_NOTE, MAX_TAGS, RunNote, run_notes, set_run_note
from bandgap.runs.requests import TransferRequest


@pytest.fixture
def library(tmp_path):
    """A library with the run "run-0001" of the workspace "mine"."""
    library = Library(Home(tmp_path))
    library.add_run(
        "mine",
        job="job",
        run_id="run-0001",
        dataset="data",
        source="demo",
        request=TransferRequest(n=20),
        title="Stacking",
    )
    return library


def test_note_and_tags_lose_spaces_and_repetitions(library):
    note = set_run_note(
        library, "mine", "run-0001", RunNote(" a  b ", ("x", " x ", "", "two words"))
    )
    assert note == RunNote("a b", ("x", "two words"))
    assert run_notes(library, "mine") == {"run-0001": note}
    assert run_notes(library, "yours") == {}


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (RunNote("x" * (MAX_NOTE + 1)), f"Stacking has {MAX_NOTE + 1} characters. Accepted: at mo"),
        (RunNote(tags=tuple("abcdefghijklm")), f"13 tags. Accepted: at most {MAX_TAGS}"),
        (RunNote(tags=("y" * 31,)), "has 31 characters. Accepted: at most 30"),
    ],
    ids=["note", "number of tags", "tag"],
)
def test_note_over_a_limit_is_refused(library, note, message):
    with pytest.raises(InputError, match=message):
        set_run_note(library, "mine", "run-0001", note)
    assert run_notes(library, "mine") == {}


def test_run_of_another_workspace_gets_no_note(library):
    with pytest.raises(InputError, match="no such run"):
        set_run_note(library, "yours", "run-0001", RunNote("mine"))


def test_store_of_an_earlier_version_gets_the_table_of_notes(library):
    with library.database.writing() as connection:
        connection.execute("DROP TABLE run_note")
    Database(library.home.database)
    assert run_notes(library, "mine") == {}
