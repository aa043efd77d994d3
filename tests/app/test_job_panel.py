"""The panel of a job whose state has changed since the panel was drawn."""

from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from bandgap.jobs.lock import acquire
from tests.app.conftest import Workspace, texts


def page() -> None:
    """A page with one panel, of the job as stored by the test (as in a fragment), else as it is."""
    import streamlit as st

    from app.components.shared import stores
    from app.components.shared.job_panel import job_panel

    stored_job = st.session_state.pop("as drawn", None)
    job = stored_job or stores.jobs().job(st.session_state["workspace"], st.session_state["job"])
    assert job is not None
    job_panel(job)


def test_cancel_works_when_the_job_has_started_after_drawing(workspace: Workspace) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    at = AppTest.from_function(page)
    at.session_state["workspace"] = workspace.id
    at.session_state["job"] = job.id
    at.run()
    workspace.make_running(job)
    at.session_state["as drawn"] = job
    (cancel,) = at.button
    cancel.click().run()
    assert not at.exception
    present = workspace.jobs.job(workspace.id, job.id)
    assert present is not None and present.cancel_requested
    assert at.button[0].disabled and "Ending the computation" in at.markdown[-1].value


def test_panel_shows_how_a_job_ended_after_drawing(workspace: Workspace) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    at = AppTest.from_function(page)
    at.session_state["workspace"] = workspace.id
    at.session_state["job"] = job.id
    at.run()
    workspace.jobs.request_cancel(workspace.id, job.id)
    at.session_state["as drawn"] = job
    at.run()
    assert not at.exception and not at.button
    assert at.warning[0].value.startswith("The training was cancelled")


def test_waiting_job_shows_its_place_and_expected_start_on_top_of_the_list(
    workspace: Workspace, visit: Callable[..., AppTest]
) -> None:
    dataset = workspace.add_labelled()
    ended_run, ended = workspace.add_run(dataset, seed=2)
    workspace.make_running(ended)
    workspace.jobs.end(ended.id, "cancelled")
    _, running = workspace.add_run(dataset)
    workspace.make_running(running)
    waiting_run, _ = workspace.add_run(dataset, seed=1)
    acquire(workspace.jobs.database, "a worker")
    at = visit("train", run=waiting_run)
    assert "Waiting, with 1 job before this one. It is expected to start in about" in texts(at)
    states = [frame.value["state"].tolist() for frame in at.dataframe if "state" in frame.value]
    assert states == [["running", "waiting", "cancelled"]]
    labels = [button.label for button in visit("train", run=ended_run).button]
    assert "Start it again" in labels and any(label.startswith("Continue: ") for label in labels)
