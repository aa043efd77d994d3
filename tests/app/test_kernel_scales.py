"""Posterior page of vecchia_gp: the length and the spread of its process, and whether its chains agree."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_finished_run import train_source

Visit = Callable[..., AppTest]


@dataclass(frozen=True)
class Made:
    workspace: Workspace
    run: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    folder = train_source(tmp_path_factory.mktemp("source"))
    about = {"title": "vecchia_gp", "summary": "", "cost": "", "settings": {}, "family": "output layer alone"}
    workspace.library.register("method", workspace.library.catalogue("method") | {"vecchia_gp": about})
    workspace.library.register("source", {"demo": {"title": "demo molecules", "folder": str(folder)}})
    dataset = workspace.add_labelled()
    settings = {"process": {"metropolis": {"chains": 2, "warmup": 25, "draws": 50}}}
    run = workspace.add_run(dataset, method="vecchia_gp", settings=settings)[0]
    work_all(workspace.home)
    return Made(workspace, run)


@pytest.fixture
def workspace(made: Made, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(made.workspace.home.folder))
    return made.workspace


def test_posterior_page_shows_the_scales_of_the_process(visit: Visit, made: Made) -> None:
    at = visit("posterior", run=made.run)
    text = texts(at)
    assert not at.exception
    assert "How far one crystal tells of another" in text
    assert "**length**: Median" in text and "**spread of the process**: Median" in text
    assert "**smoothness** " in text and "taken as known" in text
    assert "Do the chains agree?" in text
    assert set(at.selectbox(key="trace-quantity").options) >= {"length", "spread", "noise"}
