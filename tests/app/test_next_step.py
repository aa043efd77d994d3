"""One next step in every state of a workspace.

Home offers it, its button leads to the page where it is taken, and taking it changes the step. No
other page advises another one.
`pytest -n 0 -rP tests/app/test_next_step.py` prints the table.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.evaluation.calibrators import fit_calibrator, save_calibrator
from bandgap.evaluation.heldout import load_heldout
from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.next_step import ADD_DATA, TRAIN
from bandgap.jobs.predicting import start_prediction
from bandgap.jobs.refitting import start_refit
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shipped_runs import shipped_run, store_shipped_run
from bandgap.jobs.worker import work_all
from bandgap.predictions.table import LEVELS
from tests.app.conftest import (
    WATER,
    Workspace,
    copied_workspace,
    empty_workspace,
    labelled,
    primary,
)

Visit = Callable[..., AppTest]
Change = Callable[[Workspace], object]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with a finished run; only copied."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    example.add_run(example.add_labelled(120), method="kernel_ridge", source="none", n_test=60)
    work_all(example.home)
    set_errors(example, 1.0)
    return example


def run_of(workspace: Workspace) -> RunRow:
    return workspace.library.runs(workspace.id)[0]


def change_run(workspace: Workspace, **changes: Any) -> None:
    """Change the manifest of the newest run."""
    path = workspace.home.run_folder(run_of(workspace).id) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def add_demo(workspace: Workspace) -> None:
    workspace.add_labelled()


def add_structures(workspace: Workspace) -> None:
    workspace.add_checked([("water.xyz", WATER)])


def submit_check(workspace: Workspace) -> None:
    dataset = workspace.library.add_dataset(workspace.id, "water", files=[("water.xyz", WATER)])
    payload = {"dataset": dataset.id}
    workspace.jobs.submit(
        workspace.id, "check", title="Checking", payload=payload, subject=dataset.id
    )


def predict(workspace: Workspace) -> None:
    """Let the run, or without one the shipped model, predict the newest data set."""
    (dataset, *_) = workspace.library.datasets(workspace.id)
    runs = workspace.library.runs(workspace.id)
    payload = {"run": runs[0].id if runs else "shipped", "dataset": dataset.id, "name": "x"}
    workspace.jobs.submit(
        workspace.id, "predict", title="Predicting", payload=payload, subject=dataset.id
    )
    end(workspace, "finished")


def predict_without_labels(workspace: Workspace) -> None:
    add_structures(workspace)
    predict(workspace)


def add_few_gaps(workspace: Workspace) -> None:
    workspace.add_labelled(19)


def train(workspace: Workspace) -> None:
    workspace.add_run(workspace.library.datasets(workspace.id)[0].id)


def queue_training(workspace: Workspace) -> None:
    workspace.add_run(workspace.add_labelled())


def end(workspace: Workspace, state: str = "failed") -> None:
    (job, *_) = workspace.jobs.jobs(workspace.id)
    workspace.jobs.claim("a worker", lanes=["short", "long"])
    workspace.jobs.end(job.id, state)  # type: ignore[arg-type]


def fail_training(workspace: Workspace) -> None:
    queue_training(workspace)
    end(workspace)


def interrupt_training(workspace: Workspace) -> None:
    queue_training(workspace)
    end(workspace, "interrupted")


def cancel_training(workspace: Workspace) -> None:
    queue_training(workspace)
    end(workspace, "cancelled")


def with_large_error(workspace: Workspace) -> None:
    change_run(workspace, tested={"mean_gap_rmse_eV": 1e-3})


def with_bad_chains(workspace: Workspace) -> None:
    settings = {"sampler": {"warmup": 400, "draws": 1000}}
    entry = MethodEntry("Kernel ridge", "Samples.", duration="seconds", settings=settings)
    workspace.library.register_methods({"kernel_ridge": entry})
    change_run(workspace, diagnostics={"rhat": {"tau": 1.4}, "ess": {"tau": 20.0}})


def with_narrow_intervals(workspace: Workspace) -> None:
    set_errors(workspace, 3.0)


def set_errors(workspace: Workspace, factor: float) -> None:
    """Give the held-out structures gaps as their intervals say, with errors times a factor."""
    folder = workspace.home.run_folder(run_of(workspace).id)
    predictions = load_heldout(
        folder, json.loads((folder / "manifest.json").read_text())
    ).predictions
    rows = np.random.default_rng(0).integers(len(LEVELS), size=len(predictions))
    gaps = predictions.quantiles_new[rows, np.arange(len(predictions))]
    mean = predictions.mean_eV
    change_run(workspace, test_gaps_eV=list(mean + factor * (gaps - mean)))


def calibrate(workspace: Workspace) -> None:
    folder = workspace.home.run_folder(run_of(workspace).id)
    heldout = load_heldout(folder, json.loads((folder / "manifest.json").read_text()))
    save_calibrator(folder, fit_calibrator(heldout, "variance", seed=0))


def train_on_metals(workspace: Workspace) -> None:
    dataset = workspace.add_labelled(120)
    gaps = np.where(np.arange(120) % 2 == 0, 0.0, np.linspace(1.0, 4.0, 120))
    workspace.give_gaps(dataset, gaps)
    workspace.add_run(dataset, method="kernel_ridge", source="none", n_test=60)
    work_all(workspace.home)


def predict_with_the_shipped_model(workspace: Workspace) -> None:
    run = shipped_run(workspace.library, workspace.id)
    store_shipped_run(workspace.jobs, workspace.library, run)
    new = workspace.library.add_dataset(
        workspace.id, "water", purpose="prediction", files=[("water.xyz", WATER)]
    )
    start_prediction(workspace.jobs, run, new, key="once")
    work_all(workspace.home)


def damage_run(workspace: Workspace) -> None:
    change_run(workspace, test_gaps_eV=None)


def refit(workspace: Workspace) -> None:
    start_refit(workspace.jobs, workspace.library, run_of(workspace))


def finish_refit(workspace: Workspace) -> None:
    refit(workspace)
    work_all(workspace.home)


def predict_with_refit(workspace: Workspace) -> None:
    finish_refit(workspace)
    predict(workspace)


def nothing(workspace: Workspace) -> None:
    pass


PAGES = ("data", "train", "result", "compare", "predict")
# The state, how it is made, the step ("" while a job is waited for), its page, and how it is taken.
EMPTY: list[tuple[str, Change, str, str, Change]] = [
    ("empty", nothing, "Use the demo data", "Data", add_demo),
    ("structures are checked", submit_check, "", "", end),
    ("no known gaps", add_structures, "Predict their band gaps", "Predict", predict),
    (
        "no known gaps, predicted",
        predict_without_labels,
        "Give structures their gaps",
        "Data",
        add_demo,
    ),
    (
        "predictions of the shipped model",
        predict_with_the_shipped_model,
        "Give structures their gaps",
        "Data",
        add_demo,
    ),
    ("19 known gaps", add_few_gaps, "Give structures their gaps", "Data", add_demo),
    ("60 known gaps", add_demo, "Train on these", "Train", train),
    ("run waits", queue_training, "", "", end),
    ("run failed", fail_training, "Train again", "Train", train),
    ("run interrupted", interrupt_training, "Resume the run", "Train", train),
    ("metals", train_on_metals, "Refit on all labels", "Result", refit),
    ("run cancelled", cancel_training, "Train on these", "Train", train),
]
TRAINED: list[tuple[str, Change, str, str, Change]] = [
    ("large error", with_large_error, "Train again", "Train", train),
    ("chains have not agreed", with_bad_chains, "Add draws", "Result", train),
    ("intervals too narrow", with_narrow_intervals, "Calibrate the intervals", "Result", calibrate),
    ("damaged", damage_run, "Train again", "Train", train),
    ("good", nothing, "Refit on all labels", "Result", refit),
    ("refit waits", refit, "", "", end),
    ("refit finished", finish_refit, "Predict new structures", "Predict", predict),
    ("predicted", predict_with_refit, "See what to compute next", "Predict", add_demo),
]


def advised(at: AppTest) -> list[str]:
    return [button.label for button in at.button if str(button.key).startswith("next-")]


def check_step(
    visit: Visit, workspace: Workspace, row: tuple[str, Change, str, str, Change]
) -> None:
    state, make, label, page, take = row
    make(workspace)
    at = visit("home", ws=workspace.id)
    assert primary(at) == ([label] if label else [])
    advised_label = label if state != "empty" else ADD_DATA.label  # Home offers ways to add them
    for other in PAGES:
        page_of_other = visit(other, ws=workspace.id)
        labels = advised(page_of_other)
        if other == "data" and label != TRAIN.label and TRAIN.label in labels:
            labels.remove(TRAIN.label)  # Data offers a training beside another step
        assert not label or labels in ([], [advised_label]), (other, labels)
        assert len(primary(page_of_other)) <= 1, (other, primary(page_of_other))
    if label:
        labelled(at.button, label).click().run()
        assert not at.exception
        assert at.title[0].value == page
    sys.stdout.write(f"{state:34} {page or '-':8} {label or 'wait'}\n")
    take(workspace)
    assert primary(visit("home", ws=workspace.id)) != ([label] if label else [])


@pytest.mark.parametrize("row", EMPTY, ids=lambda row: row[0])
def test_step_of_a_workspace_without_a_result(
    visit: Visit, workspace: Workspace, row: tuple[str, Change, str, str, Change]
) -> None:
    check_step(visit, workspace, row)


@pytest.mark.parametrize("row", TRAINED, ids=lambda row: row[0])
def test_step_after_a_run(
    visit: Visit,
    trained: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: tuple[str, Change, str, str, Change],
) -> None:
    check_step(visit, copied_workspace(trained, tmp_path, monkeypatch), row)


def test_a_press_counts_though_the_check_ends_meanwhile(visit: Visit, workspace: Workspace) -> None:
    dataset = workspace.add_labelled()
    workspace.jobs.submit(
        workspace.id, "check", title="Checking", payload={"dataset": dataset}, subject=dataset
    )
    at = visit("data", ws=workspace.id)
    assert primary(at) == []
    button = labelled(at.button, TRAIN.label)
    end(workspace, "finished")
    button.click().run()
    assert not at.exception
    assert at.title[0].value == "Train"


def test_run_that_is_of_no_use_names_the_method_to_try_then(
    visit: Visit, trained: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = copied_workspace(trained, tmp_path, monkeypatch)
    register_methods(workspace.library)
    with_large_error(workspace)
    captions = [caption.value for caption in visit("result", ws=workspace.id).caption]
    (reason,) = [text for text in captions if "of no use" in text]
    assert reason.endswith(
        "Then try Three methods without transfer, weighted, the best of what was measured on "
        "crystals like these."
    )
