"""A first answer by a fast method before a slow one, on the pages Train and Result."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.resuming import restart_run
from bandgap.jobs.starting import Started, start_transfer
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from bandgap.transfer.shared.cost import Cost
from tests.app.conftest import Workspace, texts
from tests.app.test_actions import click
from tests.app.test_finished_run import train_source
from tests.app.test_train import tick

Visit = Callable[..., AppTest]
LABEL = "First answer after about "


def register(workspace: Workspace, *, slow_s: float, fast_s: float = 0.1) -> None:
    """Register a slow method and the fast one of the cards, with their times."""
    workspace.library.register_methods(
        {
            "btl_pcp_pe": MethodEntry("BTL-PCP", "Samples all layers.", cost=Cost(slow_s, slow_s)),
            "last_layer_ridge": MethodEntry(
                "Ridge output layer", "Fast.", cost=Cost(fast_s, fast_s)
            ),
        }
    )


def offers(at: AppTest) -> list[str]:
    return [box.label for box in at.checkbox if box.label.startswith("First answer")]


def transfers(workspace: Workspace) -> list[Job]:
    """Return the jobs in the order in which they were submitted."""
    return sorted(
        workspace.jobs.jobs(workspace.id, kinds=["transfer"]), key=lambda job: job.created
    )


def test_slow_transfer_follows_a_first_answer_on_the_same_split(
    visit: Visit, workspace: Workspace
) -> None:
    register(workspace, slow_s=600.0)
    workspace.add_labelled()
    at = visit("train")
    (label,) = offers(at)
    assert label.startswith(LABEL)
    assert "one after another" in texts(at)
    click(at, "Start the transfer")
    first, slow = transfers(workspace)
    assert first.payload["request"]["method"] == "last_layer_ridge"
    assert slow.payload["request"]["method"] == "btl_pcp_pe"
    for name in ("n", "n_test", "seed"):
        assert first.payload["request"][name] == slow.payload["request"][name]
    assert at.query_params["run"] == first.subject
    assert offers(visit("train")) == []  # it has been started


def test_first_answer_can_be_left_out(visit: Visit, workspace: Workspace) -> None:
    register(workspace, slow_s=600.0)
    workspace.add_labelled()
    at = visit("train")
    click(tick(at, offers(at)[0], on=False), "Start the transfer")
    (job,) = transfers(workspace)
    assert job.payload["request"]["method"] == "btl_pcp_pe"


def test_first_answer_is_not_offered_before_quick_or_several_methods(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    register(workspace, slow_s=5.0)
    assert offers(visit("train")) == []
    register(workspace, slow_s=600.0)
    assert offers(tick(visit("train"), "Ridge output layer")) == []


def test_first_answer_is_offered_if_four_times_faster(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    register(workspace, slow_s=600.0, fast_s=300.0)
    assert offers(visit("train")) == []
    register(workspace, slow_s=600.0, fast_s=100.0)
    assert len(offers(visit("train"))) == 1


def test_second_press_starts_nothing_and_selects_the_first_answer(
    visit: Visit, workspace: Workspace
) -> None:
    register(workspace, slow_s=600.0)
    workspace.add_labelled()
    other_tab = visit("train")
    at = visit("train")
    click(click(at, "Start the transfer"), "Start the transfer")
    click(other_tab, "Start the transfer")
    first, _ = transfers(workspace)
    assert at.query_params["run"] == other_tab.query_params["run"] == first.subject


def test_first_answer_is_offered_again_after_both_were_cancelled(
    visit: Visit, workspace: Workspace
) -> None:
    register(workspace, slow_s=600.0)
    workspace.add_labelled()
    click(visit("train"), "Start the transfer")
    assert offers(visit("train")) == []
    for job in transfers(workspace):
        workspace.jobs.request_cancel(workspace.id, job.id)
    assert len(offers(visit("train"))) == 1


@pytest.fixture
def first_answer(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Started]:
    """A finished first answer on waters, and the waiting transfer that follows it."""
    source = train_source(tmp_path_factory.mktemp("source"))
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    dataset = workspace.add_labelled()
    first, _ = workspace.add_run(dataset, method="last_layer_ridge", n=36, n_test=24)
    work_all(workspace.home)
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
    return first, slow


def test_result_of_a_first_answer_shows_the_error_of_the_slow_transfer_when_it_has_ended(
    visit: Visit, workspace: Workspace, first_answer: tuple[str, Started]
) -> None:
    first, slow = first_answer
    assert "Kernel ridge is waiting, with the same structures." in texts(visit("result", run=first))
    work_all(workspace.home)
    at = visit("result", run=first)
    (line,) = [m.value for m in at.markdown if "on the same structures" in m.value]
    assert line.startswith("Kernel ridge has an RMSE of ") and "(here 0." in line
    click(at, "See its result")
    assert at.query_params["run"] == slow.run
    assert "on the same structures" not in texts(at)


def test_result_of_a_first_answer_says_that_the_slow_transfer_was_cancelled_and_then_its_error(
    visit: Visit, workspace: Workspace, first_answer: tuple[str, Started]
) -> None:
    first, slow = first_answer
    workspace.jobs.request_cancel(workspace.id, slow.job.id)
    at = visit("result", run=first)
    assert "Kernel ridge was cancelled, with the same structures." in texts(at)
    run = workspace.library.run(workspace.id, slow.run)
    assert run is not None
    restart_run(workspace.jobs, workspace.library, run)
    work_all(workspace.home)
    assert "Kernel ridge has an RMSE of " in texts(visit("result", run=first))
