"""Workspaces of a data directory: opened, listed with counts, named, removed when unused."""

import uuid
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import drop_unused_uploads
from bandgap.jobs.library import Library
from bandgap.jobs.predicting import start_prediction
from bandgap.jobs.shipped_runs import shipped_run, store_shipped_run
from bandgap.jobs.store import JobStore
from bandgap.jobs.workspaces import (
    UNUSED_S,
    all_workspaces,
    drop_unused_workspaces,
    has_workspace,
    open_workspace,
    rename_workspace,
    workspace_name,
    workspaces_of,
)
from bandgap.runs.requests import TransferRequest

MINE, OTHER, EMPTY = (str(uuid.uuid4()) for _ in range(3))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Two workspaces with data sets and an opened one without."""
    library = Library(Home(tmp_path))
    library.add_dataset(MINE, "first", files=[("a.xyz", b"1\n\nH 0 0 0\n")])
    library.add_dataset(MINE, "to predict", purpose="prediction")
    facts = {"dataset": "d", "source": "s", "title": "t", "request": TransferRequest(method="m")}
    library.add_run(MINE, job="j", run_id=str(uuid.uuid4()), **facts)
    library.add_dataset(OTHER, "second")
    open_workspace(library, EMPTY)
    return library


def test_workspace_is_known_once_it_was_opened_or_filled(library: Library) -> None:
    assert all(has_workspace(library, workspace) for workspace in (MINE, OTHER, EMPTY))
    assert not has_workspace(library, str(uuid.uuid4())) and not has_workspace(
        library, MINE.upper()
    )


def test_summaries_count_data_sets_and_runs_and_leave_out_others_and_empty_ones(
    library: Library,
) -> None:
    assert [(w.id, w.datasets, w.runs) for w in all_workspaces(library)] == [
        (OTHER, 1, 0),
        (MINE, 1, 1),
    ]
    assert [w.id for w in workspaces_of(library, [EMPTY, MINE, MINE, "unknown"])] == [MINE]
    assert workspaces_of(library, []) == []


def test_shipped_model_is_no_run_but_what_it_predicted_is_listed(library: Library) -> None:
    jobs = JobStore(library.home)
    run = shipped_run(library, EMPTY)
    store_shipped_run(jobs, library, run)
    assert EMPTY not in [w.id for w in all_workspaces(library)]
    new = library.add_dataset(EMPTY, "new", purpose="prediction")
    start_prediction(jobs, run, new, key="once")
    (summary,) = workspaces_of(library, [EMPTY])
    assert (summary.datasets, summary.runs, summary.predictions, summary.active) == (0, 0, 1, 1)


def test_name_of_a_workspace_is_kept_and_checked(library: Library) -> None:
    assert workspace_name(library, MINE) == ""
    rename_workspace(library, MINE, "  Perovskites   2026 ")
    assert (
        workspace_name(library, MINE)
        == "Perovskites 2026"
        == workspaces_of(library, [MINE])[0].name
    )
    with pytest.raises(InputError, match="The name has 0 characters"):
        rename_workspace(library, MINE, " ")


def test_workspace_that_stayed_empty_for_long_is_dropped_unless_it_has_a_name(
    library: Library,
) -> None:
    named_workspace = str(uuid.uuid4())
    rename_workspace(library, named_workspace, "for later")
    drop_unused_workspaces(library, unused_s=UNUSED_S)
    assert has_workspace(library, EMPTY)
    drop_unused_workspaces(library, unused_s=-1.0)
    assert not has_workspace(library, EMPTY)
    assert has_workspace(library, named_workspace) and has_workspace(library, MINE)


def test_opened_workspace_of_a_new_store_costs_no_file_of_a_damaged_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    content = home.save_upload(b"kept for whoever repairs the store")
    library = Library(home)
    open_workspace(library, EMPTY)
    drop_unused_uploads(library)
    assert home.read_upload(content) == b"kept for whoever repairs the store"
