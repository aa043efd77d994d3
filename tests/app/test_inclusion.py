"""The page Result of PBP and SSPBP: evidence and warnings."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace
from tests.app.small_runs import workspace_with_source

Visit = Callable[..., AppTest]

SETTINGS = {"sspbp": {"zero_probabilities": True}, "pbp": {"likelihood": "adf", "passes": 4}}


@dataclass(frozen=True)
class Example:
    """A workspace with a finished run of `pbp` with each of `SETTINGS`."""

    workspace: Workspace
    runs: dict[str, str]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    workspace = workspace_with_source(tmp_path_factory)
    methods = {"pbp": MethodEntry("pbp", family="all layers, Bayesian")}
    workspace.library.register_methods(workspace.library.methods() | methods)
    dataset = workspace.add_labelled()
    runs = {
        name: workspace.add_run(dataset, method="pbp", settings=settings)[0]
        for name, settings in SETTINGS.items()
    }
    work_all(workspace.home)
    return Example(workspace, runs)


@pytest.fixture
def workspace(example: Example, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(example.workspace.home.folder))
    return example.workspace


def test_details_of_sspbp_have_the_evidence_of_every_prior_variance(
    visit: Visit, example: Example
) -> None:
    at = visit("result", run=example.runs["sspbp"], tab="details")
    table = next(d.value for d in at.dataframe if "figure" in d.value)
    assert table["figure"].str.startswith("log_evidence_a_row_at_").sum() > 1
    assert table["value"].notna().all()


def test_result_of_pbp_warns_of_rows_that_count_many_times(visit: Visit, example: Example) -> None:
    at = visit("result", run=example.runs["pbp"])
    assert "4 passes counted every crystal 4 times" in " ".join(w.value for w in at.warning)
