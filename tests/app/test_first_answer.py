"""Of several methods the quickest gives a first answer on the page Train."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.starting import Started, start_transfer
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from tests.app.conftest import Workspace, copied_workspace
from tests.app.test_actions import click
from tests.app.test_train import tick

Visit = Callable[..., AppTest]


def transfers(workspace: Workspace) -> list[Job]:
    """Return the jobs in the order in which they were submitted."""
    return sorted(
        workspace.jobs.jobs(workspace.id, kinds=["transfer"]), key=lambda job: job.created
    )


def test_of_several_methods_the_quickest_starts_first_and_the_page_follows_the_slowest(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = tick(visit("train"), "Fine-tuning")
    other_tab = tick(visit("train"), "Fine-tuning")
    click(click(at, "Start 2 trainings"), "Start 2 trainings")
    click(other_tab, "Start 2 trainings")
    first, slow = transfers(workspace)
    assert first.payload["request"]["method"] == "fine_tune"
    assert slow.payload["request"]["method"] == "btl_pcp_pe"
    for name in ("n", "n_test", "seed", "by_formula", "conformal_share"):
        assert first.payload["request"][name] == slow.payload["request"][name]
    runs = {run.id for run in workspace.library.runs(workspace.id)}
    assert runs == {first.subject, slow.subject}
    assert at.query_params["run"] == other_tab.query_params["run"] == slow.subject


@pytest.fixture
def first_answer(
    tested_waters: tuple[Workspace, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Workspace, str, Started]:
    """A finished first answer on waters, and the waiting transfer that follows it."""
    workspace = copied_workspace(tested_waters[0], tmp_path, monkeypatch)
    first = tested_waters[1]
    (row,) = workspace.library.datasets(workspace.id)
    slow = start_transfer(
        workspace.jobs,
        workspace.library,
        row,
        source="demo",
        request=TransferRequest(method="kernel_ridge", n=36, n_test=24, device="cpu"),
        title="Kernel ridge",
        first_answer=first,
    )
    return workspace, first, slow


def test_train_shows_the_error_of_a_first_answer_while_the_slow_transfer_is_active(
    visit: Visit, first_answer: tuple[Workspace, str, Started]
) -> None:
    workspace, first, slow = first_answer
    at = visit("train", ws=workspace.id, run=slow.run)
    (line,) = [m.value for m in at.markdown if "on the same test" in m.value]
    assert " has an RMSE of 0." in line
    click(at, "See its result")
    assert at.query_params["run"] == first
    at = visit("result", ws=workspace.id, run=first)
    click(at, "Continue: Kernel ridge (a training is running)")
    assert at.title[0].value == "Train" and at.query_params["run"] == slow.run


def test_result_opens_when_the_slowest_of_the_transfers_has_ended(
    visit: Visit, first_answer: tuple[Workspace, str, Started]
) -> None:
    workspace, _, slow = first_answer
    at = visit("train", ws=workspace.id, run=slow.run)
    work_all(workspace.home)
    at.run()
    assert at.title[0].value == "Result"
    assert at.query_params["run"] == slow.run
