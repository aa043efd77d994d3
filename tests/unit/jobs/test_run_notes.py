"""Notes of runs that are refused."""

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.run_notes import set_run_note
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


def test_run_of_another_workspace_gets_no_note(library):
    with pytest.raises(InputError, match="no such run"):
        set_run_note(library, "yours", "run-0001", "mine")
