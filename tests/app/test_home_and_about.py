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
from bandgap.jobs.shipped_runs import shipped_run, store_shipped_run
from bandgap.jobs.worker import work_all
from tests.app.conftest import MAIN, Workspace, labelled, primary, texts
from tests.app.page_sizes import page_size
from tests.app.small_runs import figure, train_source
from tests.app.test_actions import click

DEMO_RESULT = MAIN.parent / "components" / "home" / "demo_result.json"
Visit = Callable[..., AppTest]


def test_empty_home_offers_the_demo_data_and_leads_to_them(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("home")
    assert primary(at) == ["Use the demo data"]
    click(at, "Use the demo data")
    assert [job.kind for job in workspace.jobs.jobs(workspace.id)] == ["import_demo"]
    assert at.title[0].value == "Data"


def test_empty_home_leads_to_the_upload(visit: Visit, workspace: Workspace) -> None:
    at = click(visit("home"), "Train on gaps that I know")
    assert at.title[0].value == "Data"
    assert workspace.jobs.jobs(workspace.id) == []


def test_data_offers_the_second_demo_and_train_proposes_what_was_measured_on_it(
    visit: Visit, workspace: Workspace
) -> None:
    """No source model is proposed there, although one was selected for other data before."""
    register_all(str(workspace.home.folder))
    at = visit("data", source="inorganic")
    assert (
        "crystals of the Materials Project: 209 with carbon and hydrogen and their PBE gaps"
        in texts(at)
    )
    labelled(at.button, "Use Materials Project crystals").click().run()
    (dataset,) = workspace.library.datasets(workspace.id)
    assert (dataset.origin, dataset.name) == ("demo-inorganic", "Materials Project crystals")
    assert [job.kind for job in workspace.jobs.jobs(workspace.id)] == ["import_demo"]
    assert at.title[0].value == "Data" and at.session_state["chosen_source"] == ""
    work_all(workspace.home)
    assert workspace.library.counts(dataset.id)["usable"] == 209
    (dataset,) = workspace.library.datasets(workspace.id)
    assert dataset.level_of_theory == "PBE" and "CC-BY-4.0" in dataset.labels["source"]
    at = visit("train", data=dataset.id)
    assert labelled(at.selectbox, "Source model").value == "none"
    ticked_methods = [
        box.key for box in at.checkbox if str(box.key).startswith("method-") and box.value
    ]
    assert ticked_methods == ["method-stacking-alone-demo", "method-kernel_ridge-alone-demo"]
    size = page_size(at)  # with all methods
    assert not size.is_too_large, size.row("train")


def test_first_demo_leaves_a_chosen_source_alone_but_not_that_of_the_other_demo(
    visit: Visit, workspace: Workspace
) -> None:
    for source, after in (("", ""), ("mine", "mine"), ("inorganic", "")):
        ws = str(uuid.uuid4())
        workspace.jobs.submit(ws, "train_source", title="t", payload={}, subject="mine")
        at = visit("data", ws=ws, **({"source": source} if source else {}))
        labelled(at.button, "Use the demo data").click().run()
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


def test_empty_home_shows_what_the_demo_gives(visit: Visit) -> None:
    at = visit("home")
    stored_result = json.loads(DEMO_RESULT.read_text())
    assert "a model that learned from 200 gaps predicts 60 others" in texts(at)
    drawn = [x for trace in figure(at, 0)["data"][1:] for x in trace["customdata"]]
    assert set(drawn) < set(stored_result["crystals"]["id"]) and len(drawn) == 60


def test_home_shows_the_contents_and_the_verdict_on_the_last_finished_run(
    visit: Visit, workspace: Workspace, tmp_path: Path
) -> None:
    source = train_source(tmp_path / "source")
    workspace.library.register_sources({"demo": SourceEntry("the demo", str(source))})
    run, _ = workspace.add_run(workspace.add_labelled(), method="last_layer_ridge")
    store_shipped_run(
        workspace.jobs, workspace.library, shipped_run(workspace.library, workspace.id)
    )
    work_all(workspace.home)
    workspace.add_run(workspace.library.datasets(workspace.id)[0].id, method="fine_tune")
    at = visit("home")
    text = texts(at)
    assert "1 data set · 60 structures · 60 known gaps · 1 finished run" in text
    assert "last\\_layer\\_ridge, n = 40, on waters" in text
    assert "Cannot be judged" in text and "RMSE 0." in text
    click(at, "See the result")
    assert at.title[0].value == "Result" and at.query_params["run"] in (run, [run])


def test_about_shows_that_no_worker_runs(visit: Visit) -> None:
    text = texts(visit("about"))
    assert (
        "The worker has not been started" in text
        and "known as soon as a worker has started" in text
    )
    assert "5,000 files and 200 MB in all, one file 20 MB" in text and "Apache License 2.0" in text


@pytest.mark.parametrize(
    ("quota", "sentence"),
    [("2.5", "A person may take 2.5 GB"), ("0", "A person has no quota")],
)
def test_about_shows_the_quota_of_a_person(
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
    assert "numpy 2" in texts(at)
