"""The curves of a running job: values of the present phase, drawn in an open expander only."""

import json
import time

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.shared.live_curves import curves_of
from bandgap.foundation.progress import Update
from bandgap.jobs.store import Event, JobStore
from tests.app.conftest import Workspace, texts
from tests.app.test_job_panel import page

PHASES = [
    Update("training", 1, 2, values={"validation_mse": 0.5}),
    Update("training", 2, 2, values={"validation_mse": 0.3}),
    Update("sampling", 1, 9, values={"acceptance": 0.7}),
    Update("sampling", 5, 9, values={"acceptance": 0.8, "rhat": 1.2}),
    Update("sampling", 9, 9, values={"acceptance": 0.9, "rhat": 1.01}),
]


def add_events(jobs: JobStore, job: str, updates: list[Update]) -> list[Event]:
    for update in updates:
        jobs.add_event(job, "progress", update, since=time.time())
    return jobs.events(job, last=100)


def test_curves_are_those_of_the_present_phase(workspace: Workspace) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    curves = curves_of(add_events(workspace.jobs, job.id, PHASES))
    assert list(curves) == ["acceptance", "R-hat"]
    done, values = curves["acceptance"]
    assert (done.tolist(), values.tolist()) == ([1, 5, 9], [0.7, 0.8, 0.9])
    assert curves["R-hat"][0].tolist() == [5, 9]


def test_report_without_a_finite_value_has_no_curve(workspace: Workspace) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    update = Update("sampling", 1, 9, values={"rhat": float("inf")})
    assert curves_of(add_events(workspace.jobs, job.id, [update])) == {}
    assert curves_of([]) == {}


@pytest.mark.parametrize("is_open", [False, True])
def test_running_transfer_offers_its_curves(workspace: Workspace, is_open: bool) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    at = AppTest.from_function(page)
    at.session_state["workspace"] = workspace.id
    at.session_state["job"] = job.id
    workspace.make_running(job)
    at.session_state[f"live-{job.id}"] = is_open
    at.run()
    assert not at.exception
    figures = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    assert len(figures) == int(is_open)
    assert "30 of 120" in texts(at) or at.get("progress")
    if is_open:
        titles = {annotation["text"] for annotation in figures[0]["layout"]["annotations"]}
        assert titles == {"R-hat", "acceptance"}
        assert np.size(figures[0]["data"]) == 3  # R-hat, its limit, acceptance
