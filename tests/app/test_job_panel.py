"""The panel of a job whose state has changed since the panel was drawn."""

from streamlit.testing.v1 import AppTest

from tests.app.conftest import Workspace


def page() -> None:
    """A page with one panel, of the job as stored by the test (as in a fragment), else as it is."""
    import streamlit as st

    from app.components.shared import stores
    from app.components.shared.job_panel import job_panel

    stored_job = st.session_state.pop("as drawn", None)
    job = stored_job or stores.jobs().job(st.session_state["workspace"], st.session_state["job"])
    assert job is not None
    job_panel(job, noun="transfer")


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
    assert at.warning[0].value.startswith("The transfer was cancelled")
