"""Why this number, on the page Predict: button, job, labels with weights and elements."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.jobs.added_runs import RUNS
from bandgap.jobs.explanations import explanation_path, start_explanation
from bandgap.jobs.housekeeping import delete_dataset
from bandgap.jobs.worker import work_all
from bandgap.storage.run_archives import run_archive
from tests.app.conftest import Workspace, copied_workspace, labelled, mark, texts

Visit = Callable[..., AppTest]
Predicted = tuple[Workspace, str, str]


@pytest.fixture
def workspace(
    tmp_path: Path, predicted_waters: Predicted, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the workspace, which a test may change."""
    return copied_workspace(predicted_waters[0], tmp_path, monkeypatch)


def pick(at: AppTest, prediction: str, row: int) -> AppTest:
    """Select a row of the table of predictions."""
    at.session_state[f"why-{prediction}"] = True  # the section is open
    return mark(at, f"predicted-{prediction}-all-", row)


def test_button_explains_all_structures_of_a_small_prediction(
    visit: Visit, workspace: Workspace, predicted_waters: Predicted
) -> None:
    _, run, prediction = predicted_waters
    at = pick(visit("predict", run=run), prediction, 2)
    button = labelled(at.button, "Explain this number")
    button.click().run()
    work_all(workspace.home)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["explain"])
    assert (job.state, job.error, job.result) == ("finished", "", {"n": 12})
    assert explanation_path(workspace.home, run, prediction, n=12, row=2).is_file()
    at.run()
    assert not at.exception
    table = next(f.value for f in at.dataframe if "weight" in f.value)
    assert len(table) == 5
    assert table["weight"].abs().is_monotonic_decreasing
    assert "What makes the interval wide?" in texts(at)
    assert "What matters?" in texts(at)
    pick(at, prediction, 5)  # needs no further job
    assert any("weight" in f.value for f in at.dataframe)
    assert len(workspace.jobs.jobs(workspace.id, kinds=["explain"])) == 1


def test_runs_whose_labels_are_not_there_offer_no_comparison_with_them(
    visit: Visit, workspace: Workspace, predicted_waters: Predicted
) -> None:
    """An added run, and then one whose data set was deleted."""
    _, run, prediction = predicted_waters
    library, jobs = workspace.library, workspace.jobs
    archive = run_archive(workspace.home.run_folder(run), name="copy")
    adding = RUNS.add_archive(jobs, library, workspace.id, archive, name="copy")
    work_all(workspace.home)
    added = library.run(workspace.id, adding.payload["run"])
    assert added is not None
    with pytest.raises(InputError, match="made elsewhere and came without its labelled"):
        start_explanation(jobs, library, added, prediction=prediction, n=12, row=2)
    delete_dataset(library, workspace.id, library.run(workspace.id, run).dataset)
    explanation_path(workspace.home, run, prediction, n=12, row=2).unlink(missing_ok=True)
    at = pick(visit("predict", run=run), prediction, 2)
    assert not at.exception
    assert "The data set of this run was deleted" in texts(at)
    assert "Explain this number" not in [button.label for button in at.button]
