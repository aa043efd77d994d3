"""A first answer by a fast method before a slow one, on the pages Train and Result."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from bandgap.transfer.shared.cost import Cost
from tests.app.conftest import Workspace, texts
from tests.app.test_actions import click
from tests.app.test_finished_run import train_source
from tests.app.test_train import tick

Visit = Callable[..., AppTest]
LABEL = "First answer after about "


def register(workspace: Workspace, *, slow_s: float) -> None:
    """Register a method of this time, and the fast one of the cards."""
    workspace.library.register_methods(
        {
            "btl_pcp_pe": MethodEntry("BTL-PCP", "Samples all layers.", cost=Cost(slow_s, slow_s)),
            "last_layer_ridge": MethodEntry("Ridge output layer", "Fast.", cost=Cost(0.1, 0.1)),
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


def test_result_of_a_first_answer_says_how_far_the_slow_transfer_is_and_then_its_error(
    visit: Visit, workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = train_source(tmp_path_factory.mktemp("source"))
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    dataset = workspace.add_labelled()
    first, _ = workspace.add_run(dataset, method="last_layer_ridge", n=36, n_test=24)
    work_all(workspace.home)
    assert "on the same structures" not in texts(visit("result", run=first))
    later, _ = workspace.add_run(dataset, method="kernel_ridge", n=36, n_test=24)
    other_split, _ = workspace.add_run(dataset, method="kernel_ridge", n=30, n_test=24)
    at = visit("result", run=first)
    assert "is under way, with the same structures" in texts(at)
    work_all(workspace.home)
    at = visit("result", run=first)
    (line,) = [m.value for m in at.markdown if "on the same structures" in m.value]
    assert "has an RMSE of " in line and "(here " in line
    click(at, "See its result")
    assert at.query_params["run"] == later != other_split
    assert "on the same structures" not in texts(at)
