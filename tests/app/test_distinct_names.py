"""Names of runs and data sets that are the same."""

from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from app.components.shared.run_choice import run_labels
from bandgap.jobs.housekeeping import rename_run
from tests.app.conftest import Workspace

Visit = Callable[..., AppTest]


def finished_run(workspace: Workspace, dataset: str, *, title: str = "mine", seed: int = 0) -> str:
    run_id, job = workspace.add_run(dataset, seed=seed)
    workspace.make_running(job)
    workspace.jobs.end(job.id, "finished")
    run = workspace.library.run(workspace.id, run_id)
    assert run is not None
    rename_run(workspace.library, run, title)
    return run_id


def test_runs_of_one_title_are_told_apart_by_what_differs(workspace: Workspace) -> None:
    first = workspace.add_labelled()
    second = workspace.add_checked([("water.xyz", b"1\n\nO 0 0 0\n")], name="oxygen")
    runs = [
        finished_run(workspace, first),
        finished_run(workspace, first, seed=1),
        finished_run(workspace, second),
        finished_run(workspace, second, title="other"),
    ]
    rows = {run.id: run for run in workspace.library.runs(workspace.id)}
    labels = run_labels(rows, {first: "waters", second: "oxygen"}, {})
    assert [labels[run] for run in runs] == [
        "mine, on waters, seed 0",
        "mine, on waters, seed 1",
        "mine, on oxygen",
        "other",
    ]


def test_data_sets_of_one_name_are_told_apart_by_the_time_of_upload(
    visit: Visit, workspace: Workspace
) -> None:
    for _ in range(2):
        workspace.add_checked([("water.xyz", b"1\n\nO 0 0 0\n")], name="oxygen")
    at = visit("data")
    (box,) = [box for box in at.selectbox if box.label == "Data set"]
    assert len(set(box.options)) == 2
    assert all(option.startswith("oxygen, ") for option in box.options)
