"""The estimated time of a transfer or a training: costs of methods, and past jobs of the server."""

import uuid
from typing import Any

import pytest

from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.estimates import (
    START_S,
    Estimate,
    TransferTimes,
    atoms_of_file,
    estimate_training,
    labelled_atoms,
)
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Verdict
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import SourceRequest, TransferRequest
from bandgap.transfer import METHODS
from bandgap.transfer.shared.cost import default_iterations
from tests.unit.jobs.payloads import source_payload, transfer_payload

WS = str(uuid.uuid4())
TRAINING = {"hidden": (6, 4), "max_epochs": 100}


@pytest.fixture
def store(tmp_path) -> JobStore:
    register_methods(Library(Home(tmp_path)))
    return JobStore(Home(tmp_path))


def add_finished(
    store: JobStore,
    kind: str,
    payload: dict[str, Any],
    *,
    took_s: float,
    result: dict[str, Any],
    workspace: str = WS,
) -> None:
    job = store.submit(workspace, kind, title="t", payload=payload, subject="s")
    assert store.claim("w") is not None
    store.end(job.id, "finished", result=result)
    with store.database.writing() as connection:
        connection.execute("UPDATE job SET started = finished - ? WHERE id = ?", (took_s, job.id))


def add_transfer(store: JobStore, *, took_s: float, workspace: str = WS, **changed) -> None:
    result = {"resumed": changed.pop("resumed", False)}
    fields = {"method": "bnn", "n": 60, "dataset": "d", "source": "demo", "run": "r"}
    payload = transfer_payload(**fields | changed)
    add_finished(store, "transfer", payload, took_s=took_s, result=result, workspace=workspace)


def add_training(store: JobStore, *, took_s: float, device: str = "cpu", **changed) -> None:
    work = {"atoms": 1_000, "epochs": 50, "device": device}
    payload = source_payload(source="s", **{**TRAINING, **changed})
    add_finished(store, "train_source", payload, took_s=took_s, result={"work": work})


def estimated(store: JobStore, method: str, n: int, **more) -> Estimate | None:
    times = TransferTimes(store, Library(store.home))
    return times.estimate(TransferRequest(method=method, n=n), **more)


def seconds(store: JobStore, method: str, n: int, **more) -> float:
    estimate = estimated(store, method, n, **more)
    assert estimate is not None
    return estimate.seconds - START_S


def training(store: JobStore, *, n_atoms: int = 1_000, device: str = "cpu", **changed):
    request = SourceRequest(**{**TRAINING, **changed})
    return estimate_training(store, request, n_atoms=n_atoms, device=device)


def test_costs_mark_the_methods_that_sample():
    assert {name for name, method in METHODS.items() if method.cost.sampler} == {
        name for name, method in METHODS.items() if method.resumable
    }


@pytest.mark.parametrize("method", list(METHODS))
def test_first_estimate_is_the_cost_at_the_measured_sizes_and_then_grows_with_n(store, method):
    cost = METHODS[method].cost
    assert seconds(store, method, 200) == pytest.approx(cost.large_s)
    assert seconds(store, method, 50) == pytest.approx(min(cost.small_s, cost.large_s))
    assert seconds(store, method, 800) >= 3.99 * seconds(store, method, 200)


def test_sampler_takes_as_long_as_its_iterations(store):
    usual = seconds(store, "btl_pcp_pe", 200)
    assert seconds(store, "btl_pcp_pe", 200, iterations=default_iterations() // 2) == pytest.approx(
        usual / 2
    )
    assert seconds(store, "fine_tune", 200, iterations=10) == seconds(store, "fine_tune", 200)


def test_range_is_narrower_with_past_runs():
    assert Estimate(10.0).range_s == (5.0, 20.0)
    assert Estimate(13.0, 2).range_s == pytest.approx((10.0, 16.9))


def test_last_five_runs_of_the_same_method_correct_its_cost_by_their_median(store):
    cost_s = START_S + seconds(store, "nptl", 150)
    for factor in (90.0, 90.0, 90.0, 3.0, 1.0, 2.0, 2.0, 2.0):
        add_transfer(store, took_s=factor * cost_s, method="nptl", n=150)
    add_transfer(store, took_s=50.0 * cost_s, method="fine_tune")
    before = START_S + METHODS["nptl"].cost.large_s
    assert estimated(store, "nptl", 200) == Estimate(pytest.approx(2.0 * before), 5)


def test_runs_of_all_workspaces_count_and_resumed_ones_do_not(store):
    add_transfer(store, took_s=30.0)
    add_transfer(store, took_s=30.0, workspace=str(uuid.uuid4()))
    add_transfer(store, took_s=1.0, resumed=True)
    assert estimated(store, "bnn", 60) == Estimate(pytest.approx(30.0), 2)


def test_training_is_estimated_by_atoms_and_epochs_of_the_last_ones_of_its_kind(store):
    assert training(store) is None
    for took_s in (START_S + 10.0, START_S + 20.0, START_S + 60.0):
        add_training(store, took_s=took_s)
    assert training(store) == Estimate(pytest.approx(START_S + 2 * 20.0), 3)
    assert training(store, n_atoms=3_000) == Estimate(pytest.approx(START_S + 3 * 2 * 20.0), 3)


@pytest.mark.parametrize(
    "changed",
    [{"network": "megnet"}, {"variational": True}, {"snapshots": 20}, {"device": "cuda"}],
    ids=["network", "variational", "snapshots", "device"],
)
def test_training_of_another_kind_does_not_count(store, changed):
    add_training(store, took_s=20.0)
    assert training(store, **changed) is None


def test_atoms_of_a_file_are_those_of_the_last_training_from_it(store):
    add_training(store, took_s=20.0, file="df.json")
    assert atoms_of_file(store, "df.json") == 1_000
    assert atoms_of_file(store, "other.json") is None


def test_atoms_of_a_data_set_are_those_of_its_usable_structures_with_a_gap(store):
    library = Library(store.home)
    dataset = library.add_dataset(WS, "set")
    rows = [("ready", 5, 1.0), ("warning", 6, 3.0), ("ready", 5, None), ("refused", 2, 4.0)]
    verdicts = [
        Verdict(str(k), "f", status, "", "CH4", n, False, gap, {})
        for k, (status, n, gap) in enumerate(rows)
    ]
    library.save_verdicts(dataset.id, verdicts)
    assert labelled_atoms(library, dataset.id) == 11
