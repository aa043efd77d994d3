"""What a page shows of data, of a run, and of the worker, besides the texts of test_states."""

import re
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.conftest import BROKEN, WATER, Workspace, texts
from tests.app.test_actions import open_gaps

Visit = Callable[..., AppTest]


def test_upload_is_the_primary_button_of_the_data_page_without_data(visit: Visit) -> None:
    at = visit("data")
    primary = [button.label for button in at.button if button.proto.type == "primary"]
    assert primary == ["Check the files"]


def test_data_page_shows_a_verdict_for_every_file(visit: Visit, workspace: Workspace) -> None:
    workspace.add_checked([("water.xyz", WATER), ("broken.cif", BROKEN)])
    at = visit("data")
    assert "**2 structures**: 1 ready, 1 refused; none has a gap yet." in texts(at)
    table = at.dataframe[0].value
    assert list(table["file"]) == ["broken.cif", "water.xyz"]
    assert list(table["status"]) == ["refused", "ready"]
    assert "cell" in table["problem"][0]
    assert table["gap_eV"].isna().all()


def test_data_page_with_gaps_says_where_they_come_from(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    at = visit("data")
    assert "60 have a gap and can be learned from" in texts(at)
    open_gaps(at)
    assert "Known gaps: **60 gaps from gaps.csv**, PBE." in texts(at)


def test_train_page_with_data_offers_every_method_and_one_primary_button(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = visit("train")
    assert [box.label for box in at.checkbox if str(box.key).startswith("method-")] == [
        "BTL-PCP",
        "Fine-tuning",
    ]
    assert "waters (60 labelled structures)" in at.selectbox[0].options
    assert [button.label for button in at.button] == ["Start training"]
    assert at.button[0].proto.type == "primary"


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


def test_train_page_of_a_failed_run_shows_the_reason_without_traceback(
    visit: Visit, workspace: Workspace
) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    workspace.jobs.end(
        job.id, "failed", error="12 structures hold Br, which the source model never saw."
    )
    at = visit("train", run=run)
    assert [error.value for error in at.error] == [
        "12 structures hold Br, which the source model never saw."
    ]
    assert "Traceback" not in texts(at)
    assert at.dataframe[0].value["state"][0] == "failed"


@pytest.mark.parametrize("name", ["result", "predict"])
def test_result_pages_of_a_run_without_its_folder_say_what_is_safe(
    visit: Visit, workspace: Workspace, name: str
) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    workspace.jobs.end(job.id, "finished")
    at = visit(name, run=run)
    if name == "result":
        assert "Other runs are not touched; train this one again." in at.error[0].value
    else:
        assert [button.label for button in at.button] == ["Predict"]


def test_train_page_of_a_dead_worker_says_interrupted(visit: Visit, workspace: Workspace) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    with workspace.jobs.database.writing() as connection:
        connection.execute("UPDATE job SET heartbeat = heartbeat - 60 WHERE id = ?", (job.id,))
    assert "The training was interrupted. The worker stopped answering" in texts(
        visit("train", run=run)
    )


def test_page_without_a_worker_says_how_to_start_one(visit: Visit) -> None:
    warning = visit("data").sidebar.warning[0].value
    assert warning.startswith(
        "The worker has not been started: jobs wait until it runs. Start it with `bandgap worker`"
    )


def test_page_that_is_the_first_of_a_server_has_the_frame_too(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = visit("train")
    assert at.sidebar.warning[0].value.startswith("The worker has not been started")
