"""A method of another package on the page Train: registered by the worker, ticked and started."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.worker import work_all
from bandgap.transfer import METHODS
from tests.app.conftest import Workspace, texts
from tests.app.test_actions import click
from tests.app.test_train import choose_only
from tests.outside_package import install_outside_package


@pytest.fixture
def outside_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package on the path of this process and of the processes of its jobs."""
    monkeypatch.syspath_prepend(str(install_outside_package(tmp_path)))
    METHODS.__dict__.pop("_all_objects", None)
    yield
    METHODS.__dict__.pop("_all_objects", None)


@pytest.mark.usefixtures("outside_package")
def test_method_of_another_package_is_trained_from_the_page(
    visit: Callable[..., AppTest], workspace: Workspace
) -> None:
    workspace.add_labelled()
    register_methods(workspace.library)
    at = visit("train", source="none")
    click(choose_only(at, "Mean of the labels"), "Start training")
    work_all(workspace.home)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["transfer"])
    assert (job.state, job.payload["request"]["method"]) == ("finished", "outside_mean"), job.error
    assert "RMSE" in texts(visit("result", run=job.subject))
