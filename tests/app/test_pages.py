"""What a page shows of data, of a run, and of the worker, besides the texts of test_states."""

import re
from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from bandgap.foundation.progress import Update
from tests.app.conftest import WATER, Workspace, primary, texts

Visit = Callable[..., AppTest]


def test_upload_is_the_primary_button_of_the_data_page_without_data(visit: Visit) -> None:
    at = visit("data")
    assert primary(at) == ["Check the files"]


def test_train_page_with_too_few_labels_says_how_many_are_needed(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_checked([("water.xyz", WATER)])
    assert "0 structures with a gap; at least 20 are needed." in texts(visit("train"))


def test_train_page_follows_a_running_job(visit: Visit, workspace: Workspace) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    at = visit("train", run=run)
    text = texts(at)
    assert "R-hat 1.08 · acceptance 0.8" in text and "chain 2 of 4" in text
    progress = at.get("progress")[0].proto
    assert progress.value == 25
    # The panel shows 30 s minus the time that has passed.
    assert re.fullmatch(r"Sampling · 30 of 120 · about 1 min \d\d s left", progress.text)
    later = Update("sampling", 60, 120, values={"rhat": 1.02, "ess_bulk": 412.3})
    workspace.jobs.add_event(job.id, "progress", later, since=0.0)
    line = Update("log", message="chain 3 found a smaller step")
    workspace.jobs.add_event(job.id, "log", line, since=0.0)
    text = texts(at.run())
    assert "R-hat 1.02 · effective draws 412" in text and "chain 3 found a smaller step" in text


def test_result_of_a_run_without_its_folder_says_what_is_safe(
    visit: Visit, workspace: Workspace
) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    workspace.jobs.end(job.id, "finished")
    error = visit("result", run=run).error[0].value
    assert "Other runs are not touched; train this one again." in error


def test_train_page_of_a_dead_worker_says_interrupted(visit: Visit, workspace: Workspace) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    with workspace.jobs.database.writing() as connection:
        connection.execute("UPDATE job SET heartbeat = heartbeat - 60 WHERE id = ?", (job.id,))
    assert "The training was interrupted. The worker stopped answering" in texts(
        visit("train", run=run)
    )
