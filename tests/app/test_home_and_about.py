"""Home in every state of a workspace; About: server, disk space, commands and licence."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.datasets.demo import load_demo
from bandgap.datasets.splits import permuted_split
from bandgap.evaluation.metrics import coverage, mae, mean_width, rmse
from bandgap.jobs.catalogue import register_all, register_system
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import BROKEN, MAIN, WATER, Workspace, texts
from tests.app.test_actions import click
from tests.app.test_finished_run import figure, train_source

DEMO_RESULT = MAIN.parent / "components" / "home" / "demo_result.json"
Visit = Callable[..., AppTest]


def primary(at: AppTest) -> list[str]:
    return [button.label for button in at.button if button.proto.type == "primary"]


def metrics(at: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in at.metric}


def test_empty_home_offers_the_demo_data_and_leads_to_them(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("home")
    assert "Start with the demo data" in texts(at) and not at.metric
    assert primary(at) == ["Use the demo data"]
    click(at, "Use the demo data")
    assert [job.kind for job in workspace.jobs.jobs(workspace.id)] == ["import_demo"]
    assert at.title[0].value == "Data"


def test_empty_home_leads_to_the_upload(visit: Visit, workspace: Workspace) -> None:
    at = click(visit("home"), "Upload your own structures")
    assert at.title[0].value == "Data"
    assert workspace.jobs.jobs(workspace.id) == []


def test_home_offers_the_second_demo_and_train_proposes_what_was_measured_on_it(
    visit: Visit, workspace: Workspace
) -> None:
    """No source model is proposed there, although one was selected for other data before."""
    register_all(str(workspace.home.folder))
    at = visit("home", source="inorganic")
    assert (
        "crystals of the Materials Project: 209 with carbon and hydrogen and their PBE gaps"
        in texts(at)
    )
    next(
        button for button in at.button if button.label == "Use Materials Project crystals"
    ).click().run()
    (dataset,) = workspace.library.datasets(workspace.id)
    assert (dataset.origin, dataset.name) == ("demo-inorganic", "Materials Project crystals")
    assert [job.kind for job in workspace.jobs.jobs(workspace.id)] == ["import_demo"]
    assert at.title[0].value == "Data" and at.session_state["chosen_source"] == ""
    work_all(workspace.home)
    assert workspace.library.counts(dataset.id)["usable"] == 209
    (dataset,) = workspace.library.datasets(workspace.id)
    assert dataset.level_of_theory == "PBE" and "CC-BY-4.0" in dataset.labels["source"]
    at = visit("train", data=dataset.id)
    assert next(box for box in at.selectbox if box.label == "Source model").value == "none"
    ticked_methods = [
        box.key for box in at.checkbox if str(box.key).startswith("method-") and box.value
    ]
    assert ticked_methods == ["method-stacking-alone"]


def test_first_demo_leaves_a_chosen_source_alone_but_not_that_of_the_other_demo(
    visit: Visit, workspace: Workspace
) -> None:
    for source, after in (("", ""), ("mine", "mine"), ("inorganic", "")):
        ws = str(uuid.uuid4())
        workspace.jobs.submit(ws, "train_source", title="t", payload={}, subject="mine")
        at = visit("data", ws=ws, **({"source": source} if source else {}))
        next(button for button in at.button if button.label == "Use the demo data").click().run()
        assert at.session_state["chosen_source"] == after


def test_result_on_home_is_that_of_the_demo() -> None:
    """Its crystals are the held-out ones of the demo with their gaps, and its figures agree."""
    stored_result = json.loads(DEMO_RESULT.read_text())
    crystals = load_demo("crystals")
    split = permuted_split(
        crystals.table["id"],
        n_test=stored_result["n_test"],
        n_train=stored_result["n"],
        seed=stored_result["seed"],
    )
    rows = crystals.table.iloc[split.test]
    stored_crystals = stored_result["crystals"]
    assert (
        stored_result["n"],
        stored_result["n_test"],
        stored_result["seed"],
        stored_result["method"],
    ) == (200, 300, 0, "btl_pcp_pe")
    assert (stored_result["level_of_theory"], stored_crystals["id"]) == (
        crystals.level_of_theory,
        list(rows["id"]),
    )
    gaps, mean, lower, upper = (
        np.array(stored_crystals[name]) for name in ("gap_eV", "mean_eV", "lower_eV", "upper_eV")
    )
    np.testing.assert_allclose(gaps, rows["gap_eV"], atol=6e-4)  # three decimals
    assert stored_crystals["formula"] == [crystals.records[i].formula for i in split.test]
    figures = (
        rmse(gaps, mean),
        mae(gaps, mean),
        coverage(gaps, lower, upper=upper),
        mean_width(lower, upper),
    )
    stored = [
        stored_result["metrics"][name]
        for name in ("rmse_eV", "mae_eV", "coverage_95", "width_95_eV")
    ]
    np.testing.assert_allclose(figures, stored, atol=2e-3)


def test_home_without_a_finished_run_shows_what_the_demo_gives_and_the_three_steps(
    visit: Visit,
) -> None:
    at = visit("home")
    stored_result = json.loads(DEMO_RESULT.read_text())
    assert (
        "In the demo the model learned from 200 crystals. On 300 held-out structures the error is "
        "**" in texts(at)
    )
    table = at.dataframe[0].value
    crystals = stored_result["crystals"]
    assert list(table["structure"]) == crystals["formula"][: len(table)] and 5 < len(table) < 12
    assert table["interval"][0] == f"{crystals['lower_eV'][0]:.2f} to {crystals['upper_eV'][0]:.2f}"
    drawn = [x for trace in figure(at, 0)["data"][1:] for x in trace["customdata"]]
    assert set(drawn) < set(crystals["id"]) and len(drawn) == 60
    links = [link.proto.label for link in at.get("page_link")]
    assert links[-3:] == ["1. Data", "2. Train", "3. Predict"]


def test_home_shows_error_and_coverage_of_the_last_finished_run(
    visit: Visit, workspace: Workspace, tmp_path: Path
) -> None:
    source = train_source(tmp_path / "source")
    workspace.library.register_sources({"demo": SourceEntry("the demo", str(source))})
    workspace.add_run(workspace.add_labelled(), method="last_layer_ridge")
    work_all(workspace.home)
    at = visit("home")
    text = texts(at)
    name = "**last\\_layer\\_ridge, n = 40**, learned from the data set **waters**"
    assert "In the demo" not in text and name in text
    assert (
        "On 10 held-out structures the error is **" in text
        and "fall in their 95 % prediction interval" in text
    )
    assert [button.label for button in at.button].count("See the result") == 1
    workspace.add_run(workspace.library.datasets(workspace.id)[0].id, method="fine_tune")
    # The newer run is not finished.
    assert name in texts(visit("home"))


def test_home_with_unlabelled_structures_asks_for_gaps(visit: Visit, workspace: Workspace) -> None:
    workspace.add_checked([("water.xyz", WATER), ("broken.cif", BROKEN)])
    at = visit("home")
    assert metrics(at) == {"Data sets": "1", "Labelled structures": "0", "Finished transfers": "0"}
    assert "at least 20 structures of a data set with a known gap; the most so far: 0." in texts(at)
    assert "no structure has a gap yet" in [caption.value for caption in at.caption]
    assert primary(at) == ["Give structures their gaps"]
    at.button[0].click().run()
    assert at.title[0].value == "Data"


def test_home_with_labelled_structures_leads_to_a_transfer(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = visit("home")
    assert metrics(at)["Labelled structures"] == "60"
    captions = [caption.value for caption in at.caption]
    assert "largest labelled data set: waters" in captions
    assert primary(at) == ["Start a transfer"]
    at.button[0].click().run()
    assert at.title[0].value == "Train"


def test_home_offers_the_next_step_above_the_figures(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    types = [element.type for element in visit("home").main]
    assert types.index("button") < types.index("metric")


def test_home_follows_a_running_job_and_offers_nothing_else(
    visit: Visit, workspace: Workspace
) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    at = visit("home")
    assert "R-hat 1.08" in texts(at) and primary(at) == []
    of_workspaces = ["Rename", "Start a new workspace", "Forget all workspaces in this browser"]
    assert [button.label for button in at.button] == ["Cancel", *of_workspaces]
    assert list(at.dataframe[0].value["state"]) == ["running"]


@pytest.mark.parametrize(
    ("predicted", "label", "title"),
    [
        (False, "Predict new structures", "Predict"),
        (True, "See what the runs are good for", "Result"),
    ],
)
def test_home_after_a_transfer_leads_on(
    visit: Visit, workspace: Workspace, predicted: bool, label: str, title: str
) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    workspace.jobs.end(job.id, "finished")
    if predicted:
        payload = {"run": job.subject, "dataset": "none"}
        other = workspace.jobs.submit(
            workspace.id, "predict", title="Predicting", payload=payload, subject="none"
        )
        assert workspace.jobs.claim("a worker", lanes=["short"]) is not None
        workspace.jobs.end(other.id, "finished")
    at = visit("home")
    assert metrics(at)["Finished transfers"] == "1" and primary(at) == [label]
    at.button[0].click().run()
    assert at.title[0].value == title


def test_home_after_a_failed_transfer_lists_it_and_offers_another(
    visit: Visit, workspace: Workspace
) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    workspace.jobs.end(job.id, "failed", error="12 structures hold Br.")
    at = visit("home")
    assert list(at.dataframe[0].value["state"]) == ["failed"] and primary(at) == [
        "Start a transfer"
    ]


def test_about_shows_that_no_worker_runs(visit: Visit) -> None:
    text = texts(visit("about"))
    assert (
        "The worker has not been started" in text
        and "known as soon as a worker has started" in text
    )
    assert "5,000 files and 200 MB in all, one file 20 MB" in text and "Apache License 2.0" in text


@pytest.mark.parametrize(
    ("quota", "sentence"),
    [("2.5", "A workspace may take 2.5 GB"), ("0", "A workspace has no quota")],
)
def test_about_shows_the_quota_of_a_workspace(
    visit: Visit, monkeypatch: pytest.MonkeyPatch, quota: str, sentence: str
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", quota)
    assert f"{sentence}; whoever runs this server sets it." in texts(visit("about"))


def test_about_names_versions_and_room(visit: Visit, workspace: Workspace) -> None:
    register_system(workspace.library)
    dataset = workspace.add_labelled()
    run, _ = workspace.add_run(
        dataset, settings={"sampler": {"warmup": 40, "draws": 50}}, conformal_share=0.2
    )
    workspace.add_run(dataset, method="fine_tune")
    folder = workspace.home.run_folder(run)
    folder.mkdir(parents=True)
    (folder / "posterior.bin").write_bytes(bytes(1_500_000))
    at = visit("about", run=run)
    assert "Jobs compute on: cpu" in texts(at) and "and 1.5 MB of runs" in texts(at)
    assert "numpy" in list(at.dataframe[0].value["package"])
