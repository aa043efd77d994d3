"""The pages of a run whose labels contain metals."""

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.shared import words
from bandgap.evaluation.heldout import load_heldout
from bandgap.evaluation.reliability import share_inside
from bandgap.jobs.worker import work_all
from bandgap.storage.manifests import read_manifest
from tests.app.conftest import Workspace, labelled, texts
from tests.app.small_runs import predict, workspace_with_source

Visit = Callable[..., AppTest]
Trained = tuple[Workspace, str, str, str]
N = 70
HELD_OUT = 30


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A workspace, a run on waters of which half are called metals, its prediction, and a run of
    one network on the same waters.
    """
    example = workspace_with_source(tmp_path_factory)
    dataset = example.add_labelled(N)
    gaps = np.maximum(np.linspace(-3.0, 3.0, N), 0.0)
    example.give_gaps(dataset, gaps)
    split = {"n": N - HELD_OUT, "n_test": HELD_OUT}
    run, _ = example.add_run(dataset, method="last_layer_ridge", **split)
    brief = {"training": {"max_epochs": 5}}
    one_network, _ = example.add_run(dataset, method="fine_tune", settings=brief, **split)
    work_all(example.home)
    return example, run, predict(example, run), one_network


@pytest.fixture
def workspace(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The trained workspace."""
    monkeypatch.setenv("BANDGAP_HOME", str(trained[0].home.folder))
    return trained[0]


def test_result_says_that_the_method_describes_the_semiconductors(
    visit: Visit, trained: Trained
) -> None:
    text = texts(visit("result", run=trained[1], tab="layers"))
    assert "Below are the gaps of the semiconductors" in text


def test_intervals_of_one_network_differ_by_the_probability_of_a_metal(
    trained: Trained,
) -> None:
    heldout = load_heldout(
        trained[0].home.run_folder(trained[3]),
        read_manifest(trained[0].home.run_folder(trained[3]), kind="run"),
    )
    lower, upper = heldout.predictions.interval(0.95)
    assert np.ptp(upper - lower) > 0.01  # eV


def test_intervals_have_the_share_of_semiconductors_in_their_interval(
    visit: Visit, trained: Trained
) -> None:
    folder = trained[0].home.run_folder(trained[1])
    heldout = load_heldout(folder, read_manifest(folder, kind="run"))
    rows = heldout.gaps_eV > 0
    lower, upper = (ends[rows] for ends in heldout.predictions.interval(0.95))
    gaps_eV = heldout.gaps_eV[rows]
    share = words.percent(float(((lower <= gaps_eV) & (gaps_eV <= upper)).mean()))
    text = texts(visit("result", run=trained[1], tab="intervals"))
    assert f"Of the {rows.sum()} semiconductors **{share}** do:" in text


def test_intervals_offer_no_factor_on_the_standard_deviation(
    visit: Visit, trained: Trained
) -> None:
    at = visit("result", run=trained[1], tab="intervals")
    kinds = labelled(at.radio, "Kind of calibrator")
    assert kinds.options == ["Conformal"]
    errors = texts(visit("result", run=trained[1], tab="errors"))
    assert "Metals and semiconductors, known and predicted" in errors


def test_predict_page_has_the_probability_of_a_metal_in_per_cent(
    visit: Visit, trained: Trained
) -> None:
    at = visit("predict", run=trained[1], prediction=trained[2])
    at.number_input(key="window-from").set_value(0.0).run()
    at.number_input(key="window-to").set_value(0.1).run()
    assert not at.exception
    table = at.dataframe[0].value
    assert table["p_metal"].dropna().between(0, 100).all() and table["p_metal"].max() > 1
    in_window = table.dropna()
    assert (in_window["p_window"] >= in_window["p_metal"] - 1.0).all()


def test_pages_state_the_same_coverage_and_say_what_the_curve_counts(
    visit: Visit, trained: Trained
) -> None:
    folder = trained[0].home.run_folder(trained[1])
    heldout = load_heldout(folder, read_manifest(folder, kind="run"))
    share = words.percent(share_inside(heldout, 0.95, "prediction"))
    assert f"intervals contain {share}" in texts(visit("result", run=trained[1]))
    text = texts(visit("result", run=trained[1], tab="intervals"))
    assert f"**{share}** of {HELD_OUT} known gaps fall in their 95 % prediction" in text
    assert "by the PIT it is " in text
