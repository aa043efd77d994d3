"""Train: several methods, double presses, what follows each end of a run, renaming, deletion."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.train.run_setup import features_sentence
from app.components.train.split_choice import usual_n
from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.entries import MethodEntry, SystemEntry
from bandgap.jobs.home import open_home
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import checkpoint_folder
from bandgap.jobs.rows import Dataset, Origin
from bandgap.jobs.sources import Source
from bandgap.jobs.store import Job
from tests.app.conftest import Workspace, labelled, primary, texts
from tests.app.test_actions import click

Visit = Callable[..., AppTest]


def tick(at: AppTest, label: str, *, on: bool = True) -> AppTest:
    box = labelled(at.checkbox, label)
    return (box.check() if on else box.uncheck()).run()


def choose_only(at: AppTest, *titles: str) -> AppTest:
    """Choose only the methods of these titles, on cards or in the box of the others."""
    for box in at.checkbox:
        if str(box.key).startswith("method-") and box.value != (box.label in titles):
            at = (box.check() if box.label in titles else box.uncheck()).run()
    on_cards = {box.label for box in at.checkbox}
    names = {options_name(at, title) for title in titles if title not in on_cards}
    (further,) = at.multiselect
    return further.set_value(sorted(names)).run()


def options_name(at: AppTest, title: str) -> str:
    """Return the name of a method by its title."""
    methods = Library(open_home()).methods()
    return next(name for name, method in methods.items() if method.title == title)


def transfers(workspace: Workspace) -> list[Job]:
    return workspace.jobs.jobs(workspace.id, kinds=["transfer"])


def keep_checkpoint(workspace: Workspace, job: Job, *, iteration: int) -> None:
    """Write the checkpoint of a chain that was interrupted, as far as pages read it."""
    header = json.dumps(
        {"__metadata__": {"schema": "1", "facts": json.dumps({"iteration": iteration})}}
    ).encode()
    folder = checkpoint_folder(workspace.home, job.payload)
    folder.mkdir(parents=True)
    (folder / "chains-1.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def interrupted(workspace: Workspace) -> tuple[str, Job]:
    run, job = workspace.add_run(
        workspace.add_labelled(), settings={"sampler": {"warmup": 300, "draws": 1500}}
    )
    workspace.make_running(job)
    workspace.jobs.end(
        job.id, "interrupted", error="The worker process ended while this job was running."
    )
    return run, job


def test_another_seed_is_another_run_and_a_finished_one_is_not_repeated(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = click(visit("train"), "Start training")
    workspace.make_running(transfers(workspace)[0])
    workspace.jobs.end(transfers(workspace)[0].id, "finished")
    click(at, "Start training")
    assert (
        "Finished before with the same settings and seed, which give the same result: BTL\\-PCP"
        in texts(at)
    )
    labelled(at.number_input, "Seed").set_value(1)
    click(at, "Start training")
    assert [job.payload["request"]["seed"] for job in transfers(workspace)] == [1, 0]


def test_estimate_stands_before_the_start_and_grows_with_the_methods(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = visit("train")

    def total() -> Any:
        return next(c for c in at.caption if c.value.startswith("About ") and c.value[-1] == ".")

    assert "by rates measured on another machine, without a GPU;" in total().proto.help
    slow = total().value
    tick(tick(at, "Fine-tuning"), "BTL-PCP", on=False)
    assert (slow, total().value) == ("About 1 min 20 s.", "About 5 s.")
    tick(at, "Fine-tuning", on=False)
    assert at.error[0].value == "No method is chosen. Tick at least one."


def test_page_opens_few_connections_to_the_store(
    visit: Visit, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.add_labelled()
    connect = sqlite3.connect
    opened: list[object] = []

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(arguments)
        return connect(*arguments, **options)

    at = visit("train")
    monkeypatch.setattr(sqlite3, "connect", counted)
    at.run()
    assert 0 < len(opened) < 10


def test_method_without_a_needed_part_is_not_offered(visit: Visit, workspace: Workspace) -> None:
    needy = MethodEntry("PTYL", "Trains.", duration="a minute", needs="snapshots")
    plain = MethodEntry("Fine-tuning", "Trains all layers.", duration="seconds")
    workspace.library.register_methods({"fine_tune": plain, "ptyl": needy})
    workspace.add_labelled()
    at = visit("train")
    assert at.multiselect[0].options == []


def test_further_methods_are_those_of_the_core_and_then_of_research(
    visit: Visit, workspace: Workspace
) -> None:
    register_methods(workspace.library)
    workspace.add_labelled()
    at = visit("train")
    is_research = [name.endswith(" (research)") for name in at.multiselect[0].options]
    assert is_research == sorted(is_research) and 5 < sum(is_research) < len(is_research)
    at.multiselect[0].set_value(["ulisse_gp"]).run()
    assert "A study: slower at every size tested." in texts(at)


def test_default_run_learns_from_all_that_is_not_held_out(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled(303)
    at = visit("train")
    assert at.number_input[0].placeholder == "212"
    assert (
        "Of 303 labelled structures 212 are learned from, 91 held out for the test, none unused."
        in texts(at)
    )
    at.number_input[0].set_value(200).run()
    assert "200 are learned from, 91 held out for the test, 12 unused" in texts(at)
    at.number_input[0].set_value(None).run()
    click(at, "Start training")
    request = transfers(workspace)[0].payload["request"]
    assert (request["n"], request["n_test"]) == (212, 91)


@pytest.mark.parametrize(
    ("available", "total", "percent", "origin", "n"),
    [
        (303, 303, 0, "upload", 212),
        (303, 303, 10, "upload", 273),
        (120, 303, 30, "upload", 29),
        (60_000, 60_000, 0, "upload", 2_000),
        (1_600, 1_600, 0, "demo", 200),
        (209, 209, 0, "demo-inorganic", 146),
    ],
    ids=["usual", "other share", "unknown elements", "too many", "demo", "small demo"],
)
def test_initial_number_of_structures(
    available: int, total: int, percent: int, origin: Origin, n: int
) -> None:
    dataset = Dataset("d", "w", "d", origin, "training", "", {}, 0.0)
    assert usual_n(available, dataset, total=total, test_percent=percent) == n


def test_split_by_formula_is_part_of_the_run(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    at = visit("train")
    at.selectbox(key="train-split-by").set_value("whole formulas").run()
    click(at, "Start training")
    (job,) = transfers(workspace)
    assert job.payload["request"]["by_formula"] is True
    assert job.title.startswith("By formula, BTL-PCP, 39 of waters, ")


def test_interrupted_run_is_resumed_by_one_button(visit: Visit, workspace: Workspace) -> None:
    run, job = interrupted(workspace)
    keep_checkpoint(workspace, job, iteration=700)
    at = visit("train", run=run)
    assert "Stored: 700 of 1,800 iterations of every chain, for 14 days." in texts(at)
    assert primary(at) == ["Resume from the last checkpoint"]
    click(at, "Resume from the last checkpoint")
    again, before = transfers(workspace)
    assert (again.subject, again.payload, before.id) == (run, job.payload, job.id)
    assert [r.job for r in workspace.library.runs(workspace.id)] == [again.id]
    assert "running" not in texts(at) and primary(at) == ["Start training"]


def test_interrupted_run_without_checkpoint_restarts(visit: Visit, workspace: Workspace) -> None:
    run, _ = interrupted(workspace)
    at = visit("train", run=run)
    assert "No draws of it are stored" in texts(at)
    click(at, "Start it again")
    assert [job.subject for job in transfers(workspace)] == [run, run]


def test_train_on_these_opens_the_form_with_that_set_above_the_runs(
    visit: Visit, workspace: Workspace
) -> None:
    other = workspace.add_labelled(30)
    workspace.add_run(workspace.add_labelled())
    at = click(visit("data", data=other), "Train on these")
    assert not any(box.label == "Start another training" for box in at.expander)
    box = labelled(at.selectbox, "Target data")
    assert box.value == other
    drawn = [element.value for element in at.main if element.type in ("markdown", "subheader")]
    assert drawn.index("**Baseline**") < drawn.index("Runs")
    assert "Cancel" not in [button.label for button in at.button]
    (label,) = [button.label for button in at.button if button.key == "continue-run"]
    assert label.startswith("Continue: btl") and label.endswith("(a training is running)")
    at.switch_page("views/train.py").run()
    at.button(key="continue-run").click().run()
    assert "Cancel" in [button.label for button in at.button]
    assert any(box.label == "Start another training" for box in at.expander)


def test_rename_and_delete_of_a_run(visit: Visit, workspace: Workspace) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    at = visit("train", run=run)
    assert "Delete this run" not in [button.label for button in at.button]
    workspace.jobs.request_cancel(workspace.id, job.id)
    at = visit("train", run=run)
    labelled(at.text_input, "Name").set_value("first try").run()
    assert workspace.library.runs(workspace.id)[0].title == "first try"
    assert list(at.dataframe[0].value["run"]) == ["first try"]
    click(at, "Delete this run")
    assert workspace.library.runs(workspace.id) == [] and transfers(workspace) == []
    assert "run" not in at.query_params and "first try is deleted" in texts(at)


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_ended_run_shows_its_end_and_offers_a_restart(
    visit: Visit, workspace: Workspace, state: str
) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    workspace.jobs.end(job.id, state, error="no" if state == "failed" else "")
    at = visit("train", run=run)
    assert {"cancelled": "The training was cancelled", "failed": "no"}[state] in texts(at)
    assert "Start it again" in [button.label for button in at.button]


def with_gaussian_process(workspace: Workspace, *, installed: bool) -> str:
    """Register two methods and whether electron levels are available; return a data set."""
    methods = {
        "feature_gp": MethodEntry("Gaussian process", "Learns from features.", duration="seconds"),
        "fine_tune": MethodEntry("Fine-tuning", "Trains all layers.", duration="seconds"),
    }
    workspace.library.register_methods(methods)
    workspace.library.register_system(SystemEntry(levels=installed))
    return workspace.add_labelled()


def levels_box(at: AppTest) -> Any:
    return labelled(at.selectbox, "Electron levels")


def test_levels_are_part_of_the_runs_of_all_methods(visit: Visit, workspace: Workspace) -> None:
    with_gaussian_process(workspace, installed=True)
    at = choose_only(visit("train"), "Gaussian process", "Fine-tuning")
    levels_box(at).set_value("GFN1-xTB").run()
    click(at, "Start 2 trainings")
    jobs = transfers(workspace)
    assert {job.title.rpartition(", 39 of waters, ")[0] for job in jobs} == {
        f"{m}, GFN1-xTB levels" for m in ("Gaussian process", "Fine-tuning")
    }
    assert {job.payload["request"]["levels"] for job in jobs} == {"GFN1-xTB"}


def test_proposal_says_what_potentials_that_are_not_installed_would_gain(
    visit: Visit, workspace: Workspace
) -> None:
    register_methods(workspace.library)
    workspace.add_labelled()
    gain = "With pretrained potentials (chgnet and sevennet) it was"
    for installed, is_said in ((("chgnet",), True), (("chgnet", "sevennet"), False)):
        workspace.library.register_system(SystemEntry(potentials=installed))
        at = visit("train")
        at.selectbox[1].set_value("none").run()
        recommended = next(text for text in at.markdown if text.value == "**Recommended**")
        assert (gain in recommended.proto.help) is is_said


@pytest.mark.parametrize(("levels", "refused"), [("Hueckel-molecules", False), ("GFN1-xTB", True)])
def test_levels_by_tight_binding_are_refused_for_gaps_like_them(
    visit: Visit, workspace: Workspace, levels: str, refused: bool
) -> None:
    dataset = with_gaussian_process(workspace, installed=True)
    workspace.library.register_system(SystemEntry(levels=True))
    gaps = np.linspace(5.0, 8.0, 60)
    workspace.give_gaps(dataset, gaps, level="GFN2-xTB")
    at = visit("train")
    levels_box(at).set_value(levels).run()
    text = "The gaps are of GFN2-xTB, and GFN1-xTB levels would nearly be the answer"
    assert (text in texts(at)) == refused


def test_levels_that_the_server_cannot_compute_are_not_offered(
    visit: Visit, workspace: Workspace
) -> None:
    with_gaussian_process(workspace, installed=False)
    box = levels_box(visit("train"))
    assert box.options == ["none", "Hückel's method, from bonds"]
    assert "pip install -c constraints.txt '.[xtb]'" in box.help


def test_features_and_memory_are_told_before_a_run() -> None:
    source = Source("a", "a", Path("a"), {"network": {"n_features": 1260}})
    text = features_sentence(source, 500)
    assert text == "1,260 features a structure, 2.5 MB of memory for 500 labelled structures."
    assert features_sentence(replace(source, manifest={}), 500) == ""
