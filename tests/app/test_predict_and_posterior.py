"""Predict: data sets, rows, downloads, next structures; Result: layers, chains, features."""

import base64
import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.components.result.more_draws import with_draws
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.entries import MethodEntry, SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.worker import work_all
from bandgap.predictions.next_inputs import stored_structures
from bandgap.predictions.store import DETAILS, EXTXYZ, QUANTILES, load_predictions, save_predictions
from bandgap.runs.requests import TransferRequest
from tests.app.conftest import Workspace, drawn_structures, empty_workspace, labelled, mark, texts
from tests.app.small_runs import SHORT, figure, train_source
from tests.app.test_actions import click

Visit = Callable[..., AppTest]

HORSESHOE = {"chains": 2, "warmup": 50, "draws": 60, "keep": 60}
METHODS = {
    "btl_pcp_pe": {"sampler": SHORT},
    "last_layer_horseshoe": {"sampler": HORSESHOE},
    "fine_tune": {"training": {"max_epochs": 5}},
}


@dataclass(frozen=True)
class Example:
    """A workspace with a run of each of `METHODS`; the first one has predicted the data set."""

    workspace: Workspace
    runs: dict[str, str]
    dataset: str
    prediction: str


def make(home: Path, source: Path) -> Example:
    """Train and predict as the worker would: of 60 structures the last ten have no gap."""
    workspace = empty_workspace(home)
    folder = train_source(source)
    families = {"last_layer_horseshoe": "output layer alone"}
    methods = workspace.library.methods() | {
        name: MethodEntry(name, family=family) for name, family in families.items()
    }
    workspace.library.register_methods(methods)
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(folder))})
    dataset = workspace.add_labelled()
    gaps = np.where(np.arange(60) < 50, np.linspace(5.0, 8.0, 60), np.nan)
    workspace.give_gaps(dataset, gaps)
    runs = {
        name: workspace.add_run(dataset, method=name, settings=settings)[0]
        for name, settings in METHODS.items()
    }
    work_all(workspace.home)
    return Example(
        workspace, runs, dataset, predict_dataset(workspace, runs["btl_pcp_pe"], dataset)
    )


def predict_dataset(workspace: Workspace, run: str, dataset: str) -> str:
    """Predict a data set as the page asks for it and return the job's id."""
    job = workspace.ask_prediction(run, dataset, name="waters")
    work_all(workspace.home)
    ended = workspace.jobs.job(workspace.id, job.id)
    assert ended is not None and ended.state == "finished", ended
    return job.id


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    return make(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("source"))


@pytest.fixture
def workspace(example: Example, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(example.workspace.home.folder))
    return example.workspace


def alts(at: AppTest) -> list[str]:
    return [str(chart.proto.alt) for chart in at.get("plotly_chart")]


def numbers(packed: dict[str, str]) -> np.ndarray:
    """Unpack an array as Plotly sends it."""
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])


def open_next(at: AppTest, prediction: str) -> AppTest:
    """Open the list of structures to compute next."""
    at.session_state[f"next-{prediction}"] = True
    at.run()
    assert not at.exception
    return at


def visit_next(visit: Visit, example: Example) -> AppTest:
    """Visit the prediction of the first run with its list of structures to compute next."""
    return open_next(visit("predict", run=example.runs["btl_pcp_pe"]), example.prediction)


def spread_toggle(at: AppTest) -> Any:
    """Return the toggle of the list of structures to compute next."""
    return labelled(at.toggle, "Spread out")


def test_predict_page_of_a_data_set_names_nearest_structures_and_those_learned_from(
    visit: Visit, example: Example
) -> None:
    at = visit("predict", run=example.runs["btl_pcp_pe"])
    table = at.dataframe[0].value
    assert len(table) == 60
    learned = table["note"].str.contains("The run learned from this structure")
    is_itself = table["nearest_known"] == table["id"]
    assert is_itself.sum() == 40 and learned[is_itself].all()
    # Waters whose distances all differ by less than 0.003 Angstrom from those of one of the 40.
    assert learned.sum() == 43
    assert table["nearest_percentile"].between(0, 100).all()


def test_predict_page_asks_for_a_data_set_of_the_workspace_once(
    visit: Visit, example: Example
) -> None:
    run = example.runs["fine_tune"]
    at = visit("predict", run=run)
    box = labelled(at.selectbox, "Structures")
    assert box.options == ["New files", "waters"]
    box.set_value(example.dataset).run()
    click(at, "Predict")
    jobs = [
        j
        for j in example.workspace.jobs.jobs(example.workspace.id, kinds=["predict"])
        if j.payload["run"] == run
    ]
    assert [job.payload["dataset"] for job in jobs] == [example.dataset]
    assert at.query_params["prediction"] == jobs[0].id
    work_all(example.workspace.home)
    open_next(at, jobs[0].id)
    # A single network offers no other criterion.
    assert at.selectbox(key="next-criterion").options == ["distance from known"]


def test_predict_page_filters_rows_and_shows_the_numbers_of_the_chosen_one(
    visit: Visit, example: Example
) -> None:
    at = visit("predict", run=example.runs["btl_pcp_pe"])
    table = at.dataframe[0].value
    position = table["note"].tolist().index("")  # not learned from
    first, nearest = table.iloc[position][["id", "nearest_known"]]
    mark(at, f"predicted-{example.prediction}-all-", position)
    assert [values["label"] for values in drawn_structures(at)] == [
        "Structure H2O in three dimensions"
    ]
    text = texts(at).replace("\\", "")
    assert f"Nearest known: {nearest}" in text and "95 % prediction interval:" in text
    find = at.text_input(key=f"find-{example.prediction}")
    find.set_value(str(first)).run()
    assert (at.dataframe[0].value["id"].str.contains(str(first), regex=False)).all()
    find.set_value("no such name").run()
    assert at.dataframe[0].value.empty


def test_what_to_compute_next_ranks_structures_without_a_gap_by_expected_reduction(
    visit: Visit, example: Example
) -> None:
    at = visit_next(visit, example)
    ids = [v.id for v in example.workspace.library.verdicts(example.dataset)]
    ranked = at.dataframe[1].value
    assert list(ranked["rank"]) == list(range(1, 11)) and set(ranked["id"]) == set(ids[50:])
    assert ranked["reduction_share"].iloc[0] > 0 and (ranked["reduction_share"] >= 0).all()
    assert "uncertainty of the 10 ranked from **" in texts(at)
    spread_toggle(at).set_value(False).run()
    alone = at.dataframe[1].value["reduction_share"]
    assert list(alone) == sorted(alone, reverse=True)
    at.selectbox(key="next-criterion").set_value("standard deviation").run()
    assert list(at.dataframe[1].value["sd_eV"]) == sorted(
        at.dataframe[1].value["sd_eV"], reverse=True
    )
    at.number_input(key="next-count").set_value(3).run()
    assert len(at.dataframe[1].value) == 3


def test_ranked_structures_are_offered_as_input_files(visit: Visit, example: Example) -> None:
    run = example.runs["btl_pcp_pe"]
    at = visit_next(visit, example)
    labels = [button.proto.label for button in at.get("download_button")]
    assert "Structures of this list (POSCAR, zip)" in labels
    folder = example.workspace.home.prediction_folder(run, example.prediction)
    predictions = load_predictions(folder / QUANTILES)
    rows = [predictions.ids.index(id) for id in at.dataframe[1].value["id"][:3]]
    drafts = stored_structures(folder / EXTXYZ, predictions, rows)
    assert [draft.info["id"] for draft in drafts] == [predictions.ids[row] for row in rows]
    with pytest.raises(ArtifactError, match="does not contain the ranked structures"):
        stored_structures(Path(os.devnull), predictions, rows)


def test_target_window_orders_the_table_and_the_next_list_by_its_probability(
    visit: Visit, example: Example
) -> None:
    at = visit_next(visit, example)
    assert "p_window" not in at.dataframe[0].value
    gaps = at.dataframe[0].value["mean_eV"]
    lower, upper = float(gaps.quantile(0.4)), float(gaps.quantile(0.6))
    at.number_input(key="window-from").set_value(lower).run()
    assert "p_window" not in at.dataframe[0].value  # one end is missing
    at.number_input(key="window-to").set_value(upper).run()
    chances = at.dataframe[0].value["p_window"]
    assert list(chances) == sorted(chances, reverse=True) and chances.between(0, 100).all()
    assert f"{chances.sum() / 100:.1f} of 60 structures expected" in texts(at)
    criterion = at.selectbox(key="next-criterion-window")
    assert criterion.value == "best chance of the window" and len(criterion.options) == 5
    assert "At least one of them: " in texts(at)
    spread_toggle(at).set_value(False).run()
    ranked = at.dataframe[1].value["p_window"]
    assert list(ranked) == sorted(ranked, reverse=True)
    again = visit("predict", run=example.runs["btl_pcp_pe"], window=f"{lower:g}:{upper:g}")
    assert "of 60 structures expected" in texts(again)
    at.number_input(key="window-to").set_value(lower / 2).run()
    assert "Accepted: two numbers in eV" in texts(at)


def test_structure_with_a_warning_on_its_file_has_no_rank_and_the_page_says_why(
    visit: Visit, example: Example
) -> None:
    at = visit_next(visit, example)
    first = at.dataframe[1].value["id"].iloc[0]
    file = (
        example.workspace.home.prediction_folder(example.runs["btl_pcp_pe"], example.prediction)
        / QUANTILES
    )
    predictions = load_predictions(file)
    row = predictions.ids.index(first)
    reason = "no hydrogen atoms in the file"
    problem = list(predictions.problem)
    status = list(predictions.status)
    problem[row] = reason
    status[row] = "warning"
    content = file.read_bytes()
    save_predictions(
        file, dataclasses.replace(predictions, problem=tuple(problem), status=tuple(status))
    )
    st.cache_resource.clear()
    try:
        at = visit_next(visit, example)
    finally:
        file.write_bytes(content)
        st.cache_resource.clear()
    table = at.dataframe[1].value
    assert list(table["rank"][:9]) == list(range(1, 10)) and table["rank"].isna().iloc[9]
    assert (
        table["id"].iloc[9] == first
        and first not in set(table["id"][:9])
        and table["warning"].iloc[9].startswith(reason)
    )
    assert "1 structure has a warning on the content of the file and no rank; the reason" in texts(
        at
    )
    assert "uncertainty of the 9 ranked from **" in texts(at)


@pytest.mark.parametrize("sampler", [{}, {"warmup": 400, "draws": 100}])
def test_run_again_has_other_draws_and_the_same_other_settings(sampler: dict[str, int]) -> None:
    settings = {"global_scale": "truncated"} | ({"sampler": sampler} if sampler else {})
    request = TransferRequest(method="last_layer_horseshoe", n=40, settings=settings)
    again = with_draws(request, 600, None)
    assert again.settings == {**settings, "sampler": {**sampler, "draws": 600}}
    assert again.changed(settings=settings) == request


def test_layers_show_weights_with_prior_traces_and_their_part_of_the_correction(
    visit: Visit, example: Example
) -> None:
    at = visit("result", run=example.runs["btl_pcp_pe"], tab="layers")
    text = texts(at)
    assert "eld-out gaps ask for" in text and " eV" in text
    rows = {row["quantity"]: row for row in at.dataframe[0].value.to_dict("records")}
    assert {"c1", "c2", "c3", "tau", "sigma", "predictions"} <= set(rows)
    assert sum(rows[name]["mean"] for name in ("c1", "c2", "c3")) == pytest.approx(1.0)
    assert rows["tau"]["R-hat"] > 0.9
    ridge = figure(at, 0)
    assert ridge["layout"]["yaxis"]["ticktext"] == ["layer 1", "layer 2", "output layer"]
    assert (
        sum(trace["name"].startswith("prior, ") for trace in ridge["data"] if "name" in trace) == 3
    )
    at.selectbox(key="trace-quantity").set_value("tau").run()
    trace = figure(at, alts(at).index("Traces of tau, one line a chain"))
    assert len(trace["data"]) == 2 and list(numbers(trace["data"][0]["x"])) == list(range(1, 41))


def test_result_warns_once_of_chains_that_disagree(visit: Visit, example: Example) -> None:
    text = texts(
        visit("result", run=example.runs["btl_pcp_pe"], tab="layers")
    )  # 40 draws can never agree
    assert text.count("The chains have not agreed yet on") == 1
    assert "Chains agree" not in text


def test_result_of_a_point_estimate_has_no_tab_of_what_it_learned(
    visit: Visit, example: Example
) -> None:
    at = visit("result", run=example.runs["fine_tune"])
    assert [tab.label for tab in at.tabs] == ["Errors", "Intervals", "Details and files"]


def test_result_of_an_output_layer_says_what_it_learned(visit: Visit, example: Example) -> None:
    at = visit("result", run=example.runs["last_layer_horseshoe"], tab="layers")
    assert "kept more than half of the change" in texts(at)


def test_result_adds_enough_draws_to_the_run_by_one_button(visit: Visit, example: Example) -> None:
    run = example.runs["btl_pcp_pe"]
    at = visit("result", run=run)
    (button,) = [b for b in at.button if "more draws of each chain" in b.label]
    folder = example.workspace.home.run_folder(run)
    manifest = json.loads((folder / "manifest.json").read_text())
    effective = min(manifest["diagnostics"]["ess"].values())
    draws = 40 + int(button.label.split()[0].replace(",", ""))
    assert effective < 400 and draws % 100 == 0
    assert 40 * 1.25 * 400 / effective <= draws < 40 * 1.25 * 400 / effective + 100
    assert "(about " in button.label
    button.click().run()
    newest = example.workspace.library.runs(example.workspace.id)[0]
    try:
        before = example.workspace.library.run(example.workspace.id, run)
        assert before is not None
        sampler = {**SHORT, "draws": draws, "keep": draws, "extended_from": [40]}
        assert newest.request == before.request.changed(settings={"sampler": sampler})
        assert (newest.dataset, newest.source) == (before.dataset, before.source)
        assert at.query_params["run"] == [newest.id] or at.query_params["run"] == newest.id
    finally:
        job = example.workspace.jobs.job(example.workspace.id, newest.job)
        assert job is not None
        example.workspace.jobs.request_cancel(example.workspace.id, job.id)
        delete_run(example.workspace.jobs, example.workspace.library, newest)


def test_predict_page_with_damaged_or_missing_files_shows_what_to_do(
    visit: Visit, example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(example.workspace.home.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    run = example.runs["btl_pcp_pe"]
    folder = Home(tmp_path).prediction_folder(run, example.prediction)
    for name in (QUANTILES, DETAILS):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(b"\x00 damaged")
        at = visit("predict", run=run)
        assert "Run predict again" in at.error[0].value and "Traceback" not in texts(at)
        (folder / name).write_bytes(content)
    (folder / DETAILS).unlink()
    at = visit("predict", run=run)
    assert "Run predict again" in at.error[0].value and "Traceback" not in texts(at)
