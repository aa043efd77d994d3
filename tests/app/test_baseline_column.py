"""Learning the difference to a cheaper gap: a table of two gaps, transfer, and prediction."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import no_progress
from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.tasks.prediction import baseline_of
from bandgap.jobs.tasks.records import labelled_set
from bandgap.jobs.worker import work_all
from bandgap.predictions.store import load_predictions
from bandgap.runs.requests import TransferRequest
from tests.app.conftest import Workspace, labelled, texts
from tests.app.test_actions import click, open_gaps, upload
from tests.app.test_crystal_source import N, perovskites

Visit = Callable[..., AppTest]
RNG = np.random.default_rng(0)
CHEAP = RNG.uniform(1.0, 2.0, N)
DEAR = 0.5 + 1.3 * CHEAP + RNG.normal(0.0, 0.02, N)


def table(*columns: str, rows: range = range(N)) -> bytes:
    values = {"gap_eV": DEAR, "gap_pbe_eV": CHEAP, "energy_eV": CHEAP}
    lines = [",".join(("id", *columns))]
    lines += [",".join((f"Cs_{k:02d}", *(f"{values[c][k]:.4f}" for c in columns))) for k in rows]
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture
def dataset(workspace: Workspace) -> str:
    register_methods(workspace.library)
    return workspace.add_checked([("perovskites.extxyz", perovskites(N))], name="perovskites")


def test_difference_to_a_cheaper_gap_is_learned_and_predicted_with(
    visit: Visit, workspace: Workspace, dataset: str
) -> None:
    at = open_gaps(visit("data"))
    upload(
        at,
        "Table of gaps (CSV)",
        [("gaps.csv", table("gap_eV", "gap_pbe_eV", "energy_eV"), "text/csv")],
    )
    click(at, "Match the gaps")
    assert "Also stored: gap\\_pbe\\_eV of 60." in texts(at)  # energies are no gaps
    verdict = workspace.library.verdicts(dataset)[3]
    assert verdict.gap_eV == pytest.approx(DEAR[3], abs=1e-4)
    assert verdict.info["gap_pbe_eV"] == pytest.approx(CHEAP[3], abs=1e-4)

    at = visit("train", data=dataset)
    at.selectbox[1].set_value("none").run()
    labelled(at.selectbox, "Learn the difference to").set_value("gap_pbe_eV").run()
    click(at, "Start training")
    work_all(workspace.home)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["transfer"])
    assert job.state == "finished", job.error
    assert (
        "difference to gap_pbe_eV, " in job.title
        and job.payload["request"]["baseline"] == "gap_pbe_eV"
    )
    at = visit("result", run=job.subject, tab="details")
    assert any(
        "--baseline-column gap_pbe_eV" in c.value and "--baselines BASELINES.csv" in c.value
        for c in at.code
    )

    at = visit("predict", run=job.subject)
    upload(at, "New structures", [("new.extxyz", perovskites(4), "")])
    upload(
        at,
        r"Table of gap\_pbe\_eV (CSV)",
        [("cheap.csv", table("gap_pbe_eV", rows=range(3)), "text/csv")],
    )
    click(at, "Predict")
    work_all(workspace.home)
    (prediction_job,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    assert prediction_job.state == "finished", prediction_job.error
    predictions = load_predictions(
        workspace.home.prediction_folder(job.subject, prediction_job.id) / "quantiles.safetensors"
    )
    assert predictions.status[3] == "refused" and "has no gap_pbe_eV" in predictions.problem[3]
    np.testing.assert_allclose(predictions.mean_eV[:3], DEAR[:3], atol=0.15)
    assert not visit("predict", run=job.subject).exception


def with_numbers(text: bytes, **numbers: float) -> bytes:
    """Return extXYZ frames with these numbers in every comment line."""
    pairs = " ".join(f"{name}={value}" for name, value in numbers.items())
    return text.replace(b" pbc=", f" {pairs} pbc=".encode())


def test_baseline_from_numbers_of_the_files_is_in_the_unit_of_its_name(
    visit: Visit, workspace: Workspace
) -> None:
    register_methods(workspace.library)
    frames = with_numbers(perovskites(N), cheap_Ha=0.1, cheap=3.0, cheap_nm=2700.0)
    dataset = workspace.add_checked([("perovskites.extxyz", frames)], name="perovskites")
    workspace.give_gaps(dataset, DEAR, level="HSE06")
    at = visit("train", data=dataset)
    offered = labelled(at.selectbox, "Learn the difference to").options
    assert [name.split(" ")[0] for name in offered] == ["nothing:", "cheap_Ha"]

    stored = workspace.library.dataset(workspace.id, dataset)
    for_training = labelled_set(
        workspace.library, stored, TransferRequest(baseline="cheap_Ha"), progress=no_progress
    ).baseline_eV
    assert for_training == pytest.approx(np.full(N, 2.7211386))
    run, _ = workspace.add_run(dataset)
    stored_run = workspace.library.run(workspace.id, run)
    run_with_baseline = replace(stored_run, request=stored_run.request.changed(baseline="cheap_Ha"))
    assert baseline_of(workspace.library, stored, run_with_baseline, None) == pytest.approx(
        np.full(N, 2.7211386)
    )
    with pytest.raises(InputError, match="the number 'cheap' states no unit"):
        labelled_set(
            workspace.library, stored, TransferRequest(baseline="cheap"), progress=no_progress
        )


def test_column_in_hartree_is_stored_in_ev_and_survives_another_table(
    visit: Visit, workspace: Workspace, dataset: str
) -> None:
    at = open_gaps(visit("data"))
    rows = "".join(f"Cs_{k:02d},2.5,0.1\n" for k in range(N))
    first = ("gaps.csv", f"id,gap_eV,gap_pbe_Ha\n{rows}".encode(), "text/csv")
    second = ("more.csv", f"id,gap_eV\n{rows.replace(',0.1', '')}".encode(), "text/csv")
    for table_of_gaps in (first, second):
        upload(at, "Table of gaps (CSV)", [table_of_gaps])
        click(at, "Match the gaps")
    stored = workspace.library.dataset(workspace.id, dataset)
    baseline = labelled_set(
        workspace.library, stored, TransferRequest(baseline="gap_pbe_Ha"), progress=no_progress
    ).baseline_eV
    assert baseline == pytest.approx(np.full(N, 2.7211386))


def test_prediction_without_the_cheaper_gap_names_the_missing_column(
    visit: Visit, workspace: Workspace, dataset: str
) -> None:
    workspace.give_gaps(dataset, DEAR, level="HSE06")
    workspace.library.save_numbers(dataset, "gap_pbe_eV", CHEAP)
    run, _ = workspace.add_run(dataset, source="none", method="kernel_ridge", baseline="gap_pbe_eV")
    work_all(workspace.home)
    at = visit("predict", run=run)
    upload(at, "New structures", [("new.extxyz", perovskites(2), "")])
    click(at, "Predict")
    work_all(workspace.home)
    (prediction_job,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    assert (
        prediction_job.state == "failed"
        and "This run corrects gap_pbe_eV of every structure, and none of" in prediction_job.error
    )
    at = visit("predict", run=run, data=dataset)  # those of the data set have it
    labelled(at.selectbox, "Structures").set_value(dataset).run()
    click(at, "Predict")
    work_all(workspace.home)
    assert workspace.jobs.jobs(workspace.id, kinds=["predict"])[0].state == "finished"
