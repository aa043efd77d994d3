"""The page Posterior of PBP and SSPBP: inclusion probabilities, prior variance and warnings."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.posterior.evidence_view import evidence_sentence
from app.components.posterior.inclusion_view import inclusion_sentence
from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_finished_run import figure, train_source
from tests.app.test_predict_and_posterior import alts

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


def test_posterior_page_of_sspbp_shows_inclusion_probabilities_of_every_layer(
    visit: Visit, example: Example
) -> None:
    at = visit("posterior", run=example.runs["sspbp"])
    text = texts(at)
    assert "Which weights take part" in text and "None has been removed." in text
    spec = figure(at, alts(at).index("Inclusion probabilities of the weights of every layer"))
    assert spec["layout"]["xaxis"]["title"]["text"] == "inclusion probability of a weight (0 to 1)"
    assert spec["layout"]["yaxis"]["ticktext"][0] == "output layer"
    table = next(d.value for d in at.dataframe if "share of weights below" in d.value)
    assert len(table) == 9
    values = table.drop(columns="share of weights below").to_numpy()
    assert ((values >= 0) & (values <= 1)).all() and (np.diff(values, axis=0) >= 0).all()


def test_posterior_page_says_which_prior_variance_was_chosen(
    visit: Visit, example: Example
) -> None:
    text = texts(visit("posterior", run=example.runs["sspbp"]))
    assert "was chosen: under it your crystals were most likely" in text
    assert (
        "has a posterior of all weights, but no prior that shares the change out among layers"
        in text
    )


def test_posterior_page_of_pbp_has_no_inclusion_and_warns_of_rows_that_count_many_times(
    visit: Visit, example: Example
) -> None:
    at = visit("posterior", run=example.runs["pbp"])
    assert "Which weights take part" not in texts(at)
    assert "4 passes counted every crystal 4 times" in " ".join(w.value for w in at.warning)


def test_sentences_count_units_and_weights() -> None:
    quantiles = np.stack([np.linspace(0.0, 1.0, 201), np.full(201, 0.5)], axis=1)
    text = inclusion_sentence(
        [np.array([0.0, 0.01, 0.5, 0.99])], quantiles, names=["layer 1", "output layer"]
    )
    assert text == (
        "Of 4 units of layer 1, 1 are on for nearly every crystal and 2 for hardly any. Weights "
        "that take part in fewer than one prediction in twenty: 5 % in layer 1, 0 % in output "
        "layer. None has been removed."
    )
    assert evidence_sentence({"0.1": -0.8, "output_alone": -0.7}) == (
        "The output layer alone was chosen: under it your crystals were most likely, each at the "
        "time when it was taken in (log evidence -0.70 a crystal; prior variance 0.1 -0.80). "
        "Differences below about 0.05 tell little."
    )
