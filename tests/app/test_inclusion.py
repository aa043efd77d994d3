"""The page Result of PBP and SSPBP: inclusion probabilities, prior variance and warnings."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from streamlit.testing.v1 import AppTest

from app.components.result.learned_words import evidence_sentence
from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_finished_run import train_source

Visit = Callable[..., AppTest]

SETTINGS = {"sspbp": {"zero_probabilities": True}, "pbp": {"likelihood": "adf", "passes": 4}}


@dataclass(frozen=True)
class Example:
    """A workspace with a finished run of `pbp` with each of `SETTINGS`."""

    workspace: Workspace
    runs: dict[str, str]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    folder = train_source(tmp_path_factory.mktemp("source"))
    methods = {"pbp": MethodEntry("pbp", family="all layers, Bayesian")}
    workspace.library.register_methods(workspace.library.methods() | methods)
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(folder))})
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


def test_result_of_sspbp_says_which_weights_take_part_and_which_prior_variance_was_chosen(
    visit: Visit, example: Example
) -> None:
    text = texts(visit("result", run=example.runs["sspbp"], tab="layers"))
    assert "Weights that take part in fewer than one prediction in twenty: " in text
    assert "Your crystals were most likely, each before it was learned from, under " in text


def test_result_of_pbp_has_no_inclusion_and_warns_of_rows_that_count_many_times(
    visit: Visit, example: Example
) -> None:
    at = visit("result", run=example.runs["pbp"], tab="layers")
    assert "Weights that take part" not in texts(at)
    assert "4 passes counted every crystal 4 times" in " ".join(w.value for w in at.warning)


def test_evidence_names_the_best_prior_variance_first() -> None:
    scores = {"0.1": -0.8, "output_alone": -0.7}
    assert evidence_sentence({f"log_evidence_a_row_at_{k}": v for k, v in scores.items()}) == (
        "Your crystals were most likely, each before it was learned from, under the output layer "
        "alone (-0.70); log evidence a crystal of the others: prior variance 0.1 (-0.80)."
    )
