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
from bandgap.jobs.resuming import checkpoint_folder
from bandgap.jobs.sources import Source
from bandgap.jobs.store import Job
from tests.app.conftest import Workspace, texts
from tests.app.test_actions import click

Visit = Callable[..., AppTest]


def tick(at: AppTest, label: str, *, on: bool = True) -> AppTest:
    box = next(box for box in at.checkbox if box.label == label)
    return (box.check() if on else box.uncheck()).run()


def primary(at: AppTest) -> list[str]:
    return [button.label for button in at.button if button.proto.type == "primary"]


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


def test_several_methods_become_several_runs_with_the_same_split(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = tick(visit("train"), "Fine-tuning")
    click(at, "Start 2 transfers")
    jobs = transfers(workspace)
    assert sorted(job.payload["request"]["method"] for job in jobs) == ["btl_pcp_pe", "fine_tune"]
    split = ("n", "n_test", "seed", "by_formula", "conformal_share")
    assert len({job.payload["dataset"] for job in jobs}) == 1
    assert len({tuple(job.payload["request"][key] for key in split) for job in jobs}) == 1
    assert {run.id for run in workspace.library.runs(workspace.id)} == {job.subject for job in jobs}
    assert "Cancel all 2 transfers" in [button.label for button in at.button]


def test_a_second_press_finds_the_runs_of_the_first(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    at = tick(visit("train"), "Fine-tuning")
    click(click(at, "Start 2 transfers"), "Start 2 transfers")
    other_tab = tick(visit("train"), "Fine-tuning")
    click(other_tab, "Start 2 transfers")
    assert len(transfers(workspace)) == 2


def test_another_seed_is_another_run_and_a_finished_one_is_not_repeated(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = click(visit("train"), "Start the transfer")
    workspace.make_running(transfers(workspace)[0])
    workspace.jobs.end(transfers(workspace)[0].id, "finished")
    click(at, "Start the transfer")
    assert (
        "Finished before with the same settings and seed, which give the same result: BTL\\-PCP"
        in texts(at)
    )
    next(i for i in at.number_input if i.label == "Seed").set_value(1)
    click(at, "Start the transfer")
    assert [job.payload["request"]["seed"] for job in transfers(workspace)] == [1, 0]


def test_estimate_stands_before_the_start_and_grows_with_the_methods(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled()
    at = visit("train")
    (one,) = [c.value for c in at.caption if c.value.startswith("Estimated time: about ")]
    assert "from costs measured on another machine" in one
    tick(at, "Fine-tuning")
    (two,) = [c.value for c in at.caption if c.value.startswith("Estimated time: about ")]
    assert two != one
    tick(at, "Fine-tuning", on=False)
    tick(at, "BTL-PCP", on=False)
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


def test_method_without_a_needed_part_is_disabled_with_a_reason(
    visit: Visit, workspace: Workspace
) -> None:
    needy = MethodEntry("PTYL", "Trains.", duration="a minute", needs="snapshots")
    plain = MethodEntry("Fine-tuning", "Trains all layers.", duration="seconds")
    workspace.library.register_methods({"fine_tune": plain, "ptyl": needy})
    workspace.add_labelled()
    at = visit("train")
    assert "Needs a source model with snapshots of its training, which this one lacks." in texts(at)
    assert [box.disabled for box in at.checkbox if box.key == "method-ptyl"] == [True]


def test_method_with_larger_errors_than_others_shows_this_in_its_caption(
    visit: Visit, workspace: Workspace
) -> None:
    register_methods(workspace.library)
    workspace.add_labelled()
    text = texts(visit("train"))
    assert "features had lower errors on every set tested. Takes seconds." in text
    assert "A study: slower at every size tested." in text


def test_default_run_learns_from_all_that_is_not_held_out(
    visit: Visit, workspace: Workspace
) -> None:
    workspace.add_labelled(303)
    at = visit("train")
    assert at.number_input[0].placeholder == "212"
    assert (
        "Of 303 labelled structures the run learns from 212; 91 are held out for the test, by "
        "single structures; none unused." in texts(at)
    )
    at.number_input[0].set_value(200).run()
    assert "learns from 200; 91 are held out for the test, by single structures; 12 unused" in (
        texts(at)
    )
    at.number_input[0].set_value(None).run()
    click(at, "Start the transfer")
    request = transfers(workspace)[0].payload["request"]
    assert (request["n"], request["n_test"]) == (212, 91)


@pytest.mark.parametrize(
    ("available", "total", "percent", "n"),
    [(303, 303, None, 212), (303, 303, 10, 273), (120, 303, 30, 29), (60_000, 60_000, None, 2_000)],
    ids=["usual share", "other share", "unknown elements", "too many for every method"],
)
def test_initial_number_of_structures(
    available: int, total: int, percent: int | None, n: int
) -> None:
    assert usual_n(available, total=total, test_percent=percent) == n


def test_split_by_formula_is_part_of_the_run(visit: Visit, workspace: Workspace) -> None:
    workspace.add_labelled()
    at = tick(visit("train"), "Keep a formula on one side of the split")
    assert "18 are held out for the test, by whole formulas" in texts(at)
    click(at, "Start the transfer")
    (job,) = transfers(workspace)
    assert (
        job.payload["request"]["by_formula"] is True and job.title == "BTL-PCP, n = 42, by formula"
    )


def test_interrupted_run_is_resumed_by_one_button(visit: Visit, workspace: Workspace) -> None:
    run, job = interrupted(workspace)
    keep_checkpoint(workspace, job, iteration=700)
    at = visit("train", run=run)
    assert "Stored: 700 of 1,800 iterations of every chain." in texts(at)
    assert primary(at) == ["Resume from the last checkpoint"]
    click(at, "Resume from the last checkpoint")
    again, before = transfers(workspace)
    assert (again.subject, again.payload, before.id) == (run, job.payload, job.id)
    assert [r.job for r in workspace.library.runs(workspace.id)] == [again.id]
    assert "running" not in texts(at) and primary(at) == ["Start the transfer"]


def test_interrupted_run_without_checkpoint_restarts(visit: Visit, workspace: Workspace) -> None:
    run, _ = interrupted(workspace)
    at = visit("train", run=run)
    assert "No draws of it are stored" in texts(at)
    click(at, "Start it again")
    assert [job.subject for job in transfers(workspace)] == [run, run]


def test_running_job_shows_its_last_log_line_and_what_is_effective(
    visit: Visit, workspace: Workspace
) -> None:
    from bandgap.foundation.progress import Update

    run, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    values = {"rhat": 1.02, "ess_bulk": 412.3}
    workspace.jobs.add_event(
        job.id, "progress", Update("sampling", 60, 120, values=values), since=0.0
    )
    workspace.jobs.add_event(
        job.id, "log", Update("log", message="chain 3 found a smaller step"), since=0.0
    )
    at = visit("train", run=run)
    assert "R-hat 1.02 · effective draws 412" in texts(
        at
    ) and "chain 3 found a smaller step" in texts(at)
    assert at.get("progress")[0].proto.value == 50


def test_train_on_these_opens_the_form_with_that_set_above_the_runs(
    visit: Visit, workspace: Workspace
) -> None:
    _, job = workspace.add_run(workspace.add_labelled())
    workspace.make_running(job)
    other = workspace.add_labelled(30)
    at = click(visit("data", data=other), "Train on these")
    assert not any(box.label == "Start other transfers" for box in at.expander)
    box = next(box for box in at.selectbox if box.label == "Target data")
    assert box.value == other
    drawn = [element.value for element in at.main if element.type in ("markdown", "subheader")]
    assert drawn.index("Methods") < drawn.index("Runs")
    at.switch_page("views/home.py").run()
    at.switch_page("views/train.py").run()
    assert any(box.label == "Start other transfers" for box in at.expander)


def test_rename_and_delete_of_a_run(visit: Visit, workspace: Workspace) -> None:
    run, job = workspace.add_run(workspace.add_labelled())
    at = visit("train", run=run)
    assert "An active run cannot be deleted. Cancel it first." in texts(at)
    workspace.jobs.request_cancel(workspace.id, job.id)
    at = visit("train", run=run)
    next(t for t in at.text_input if t.label == "Name").set_value("first try")
    click(at, "Rename")
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
    assert {"cancelled": "The transfer was cancelled", "failed": "no"}[state] in texts(at)
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


LEVELS = "Learn from electron levels too (GFN1-xTB)"


def test_levels_are_part_of_the_runs_of_all_methods(visit: Visit, workspace: Workspace) -> None:
    with_gaussian_process(workspace, installed=True)
    at = tick(tick(visit("train"), LEVELS), "Fine-tuning")
    keys = [str(box.key) for box in at.checkbox if "evels" in box.label]
    assert len(keys) == 4 and all(key.startswith("levels-") for key in keys)
    click(at, "Start 2 transfers")
    jobs = transfers(workspace)
    assert {job.title for job in jobs} == {
        f"{m}, n = 42, electron levels" for m in ("Gaussian process", "Fine-tuning")
    }
    assert {job.payload["request"]["levels"] for job in jobs} == {"GFN1-xTB"}


def test_levels_at_more_k_points_are_offered_with_levels(
    visit: Visit, workspace: Workspace
) -> None:
    with_gaussian_process(workspace, installed=True)
    more = "Levels at more k points where a cell is small"
    at = visit("train")
    assert next(box for box in at.checkbox if box.label == more).disabled
    click(tick(tick(at, LEVELS), more), "Start the transfer")
    (job,) = transfers(workspace)
    assert job.payload["request"]["levels"] == "GFN1-xTB-supercell"
    assert job.title == "Gaussian process, n = 42, electron levels at more k points"


def test_levels_of_each_molecule_are_offered_with_levels(
    visit: Visit, workspace: Workspace
) -> None:
    with_gaussian_process(workspace, installed=True)
    at = tick(tick(visit("train"), LEVELS), "Levels of each molecule alone")
    more = "Levels at more k points where a cell is small"
    assert next(box for box in at.checkbox if box.label == more).disabled
    click(at, "Start the transfer")
    (job,) = transfers(workspace)
    assert job.payload["request"]["levels"] == "GFN1-xTB-molecules"
    assert job.title == "Gaussian process, n = 42, levels of the molecules"


def test_levels_from_bonds_are_offered_where_rdkit_is_installed(
    visit: Visit, workspace: Workspace
) -> None:
    with_gaussian_process(workspace, installed=True)
    label = "Learn from levels by Hückel's method"
    assert next(box for box in visit("train").checkbox if box.label == label).disabled
    workspace.library.register_system(SystemEntry(rdkit=True))
    click(tick(visit("train"), label), "Start the transfer")
    (job,) = transfers(workspace)
    assert job.payload["request"]["levels"] == "Hueckel-molecules"
    assert job.title == "Gaussian process, n = 42, Hückel levels"


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
        assert "Proposed method: **" in texts(at)
        assert (gain in texts(at)) is is_said


def test_levels_from_bonds_are_accepted_for_tight_binding_gaps(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = with_gaussian_process(workspace, installed=True)
    workspace.library.register_system(SystemEntry(rdkit=True))
    gaps = np.linspace(5.0, 8.0, 60)
    workspace.library.save_gaps(dataset, gaps, labels={}, level_of_theory="GFN2-xTB")
    at = tick(visit("train"), "Learn from levels by Hückel's method")
    assert "would nearly be the answer" not in texts(at)


def test_levels_are_refused_for_gaps_like_them(visit: Visit, workspace: Workspace) -> None:
    dataset = with_gaussian_process(workspace, installed=True)
    gaps = np.linspace(5.0, 8.0, 60)
    workspace.library.save_gaps(dataset, gaps, labels={}, level_of_theory="GFN2-xTB")
    at = tick(visit("train"), LEVELS)
    assert "The gaps are of GFN2-xTB, and GFN1-xTB levels would nearly be the answer" in texts(at)


def test_levels_that_the_server_cannot_compute_are_not_offered(
    visit: Visit, workspace: Workspace
) -> None:
    with_gaussian_process(workspace, installed=False)
    box = next(box for box in visit("train").checkbox if box.label == LEVELS)
    assert box.disabled and "pip install -c constraints.txt '.[xtb]'" in box.help


def test_features_and_memory_are_told_before_a_run() -> None:
    source = Source("a", "a", Path("a"), {"network": {"n_features": 1260}})
    text = features_sentence(source, 500)
    assert text == "1,260 features a structure, 2.5 MB of memory for 500 labelled structures."
    assert features_sentence(replace(source, manifest={}), 500) == ""
