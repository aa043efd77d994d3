"""The estimated time of a transfer: reference costs, and corrections by past runs."""

import uuid

import pytest

from bandgap.descriptors import PRESETS
from bandgap.foundation.config import to_dict
from bandgap.jobs.estimates import (
    DESCRIBE_S,
    START_S,
    Estimate,
    PastRun,
    Work,
    atoms_to_describe,
    atoms_with_levels,
    describe_seconds,
    estimate_transfer,
    past_transfers,
    reference_seconds,
)
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Verdict
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import TransferRequest
from bandgap.transfer import METHODS
from bandgap.transfer.shared.cost import default_iterations
from tests.unit.jobs.payloads import transfer_payload

WS = str(uuid.uuid4())


COSTS = {name: method.cost for name, method in METHODS.items()}


def reference(work: Work) -> float:
    return reference_seconds(work, COSTS[work.method])


def seconds(method: str, n: int, **more) -> float:
    return reference(Work(method, n, **more)) - START_S


def test_costs_mark_the_methods_that_sample():
    assert {name for name, cost in COSTS.items() if cost.sampler} == {
        name for name, method in METHODS.items() if method.resumable is not None
    }


@pytest.mark.parametrize("method", list(COSTS))
def test_reference_passes_through_the_measured_sizes_and_never_falls_with_n(method):
    cost = COSTS[method]
    assert seconds(method, 200) == pytest.approx(cost.large_s)
    assert seconds(method, 50) == pytest.approx(min(cost.small_s, cost.large_s))
    assert seconds(method, 800) >= seconds(method, 200)


def test_sampler_takes_as_long_as_its_iterations_and_networks():
    usual = seconds("btl_pcp_pe", 200)
    assert seconds("btl_pcp_pe", 200, iterations=default_iterations() // 2) == pytest.approx(
        usual / 2
    )
    assert seconds("btl_pcp_pe", 200, iterations=default_iterations()) == pytest.approx(usual)
    assert seconds("btl_pcp_pe", 200, networks=3) == pytest.approx(3 * usual)
    assert seconds("fine_tune", 200, iterations=10) == seconds("fine_tune", 200)


def test_without_past_runs_the_estimate_is_the_reference():
    estimate = estimate_transfer(Work("fine_tune", 100), COSTS)
    assert estimate == Estimate(reference(Work("fine_tune", 100)), "reference")
    low, high = estimate.range_s
    assert low == estimate.seconds / 2 and high == estimate.seconds * 2


def past(method: str, factor: float, n: int = 150) -> PastRun:
    work = Work(method, n)
    return PastRun(work, factor * reference(work))


def test_runs_of_the_same_method_correct_the_table_by_their_median():
    runs = [past("nptl", 3.0), past("nptl", 1.0, n=90), past("nptl", 2.0), past("fine_tune", 50.0)]
    estimate = estimate_transfer(Work("nptl", 200), COSTS, past=runs)
    assert estimate == Estimate(
        pytest.approx(2.0 * reference(Work("nptl", 200))), "this method here", 3
    )
    assert estimate.range_s[1] < 1.5 * estimate.seconds


def test_only_the_newest_five_runs_count():
    runs = [past("nptl", 2.0)] * 5 + [past("nptl", 90.0)] * 20
    assert estimate_transfer(Work("nptl", 200), COSTS, past=runs).seconds == pytest.approx(
        2 * reference(Work("nptl", 200))
    )


def test_runs_of_other_methods_correct_the_estimate():
    estimate = estimate_transfer(
        Work("nptl", 200), COSTS, past=[past("ensemble", 9.0), past("ptyl", 4.0)]
    )
    assert estimate == Estimate(
        pytest.approx(4 * reference(Work("nptl", 200))), "other methods here", 1
    )


def test_structures_that_are_still_to_be_described_come_on_top():
    without = estimate_transfer(Work("nptl", 200), COSTS).seconds
    assert (
        estimate_transfer(Work("nptl", 200), COSTS, atoms=56_000).seconds
        == without + 56_000 * DESCRIBE_S
    )


def test_method_that_nobody_measured_has_no_estimate():
    assert estimate_transfer(Work("new", 200), COSTS, past=[past("nptl", 2.0)]) is None


@pytest.fixture
def store(tmp_path) -> JobStore:
    return JobStore(Home(tmp_path))


def finished(store: JobStore, *, took_s: float, workspace: str = WS, **changed) -> None:
    result = {"resumed": changed.pop("resumed", False)}
    sampler = {"sampler": {"warmup": 100, "draws": 400}}
    fields = {
        "method": "bnn",
        "n": 60,
        "settings": sampler,
        "dataset": "d",
        "source": "demo",
        "run": "r",
    }
    payload = transfer_payload(**fields | changed)
    job = store.submit(workspace, "transfer", title="t", payload=payload, subject="s")
    assert store.claim("w") is not None
    store.end(job.id, "finished", result=result)
    with store.database.writing() as connection:
        connection.execute(
            "UPDATE job SET started = 100.0, finished = ? WHERE id = ?", (100.0 + took_s, job.id)
        )


def test_past_transfers_are_of_all_workspaces_without_resumed_ones(store):
    finished(store, took_s=30.0)
    finished(store, took_s=40.0, workspace=str(uuid.uuid4()), settings={})
    finished(store, took_s=1.0, resumed=True)
    assert past_transfers(store) == [
        PastRun(Work("bnn", 60), 40.0),
        PastRun(Work("bnn", 60, 500), 30.0),
    ]


def test_atoms_count_until_a_run_from_the_same_source_is_finished(store):
    library = Library(store.home)
    dataset = library.add_dataset(WS, "set")
    gaps = (1.0, None, 2.0)
    verdicts = [
        Verdict(str(k), "f", "ready", "", "CH4", 5, False, gap, {}) for k, gap in enumerate(gaps)
    ]
    library.save_verdicts(dataset.id, verdicts)
    dataset = library.dataset(WS, dataset.id)
    assert atoms_to_describe(store, dataset, "demo") == 10
    finished(store, took_s=1.0, dataset=dataset.id)
    assert atoms_to_describe(store, dataset, "demo") == 0
    assert atoms_to_describe(store, dataset, "other") == 10


def test_atoms_with_levels_are_the_share_of_the_split_until_it_is_finished(
    store,
):
    library = Library(store.home)
    dataset = library.add_dataset(WS, "set")
    verdicts = [Verdict(str(k), "f", "ready", "", "CH4", 5, False, 1.0 + k, {}) for k in range(100)]
    library.save_verdicts(dataset.id, verdicts)
    dataset = library.dataset(WS, dataset.id)
    fields = {"levels": "GFN1-xTB", "seed": 0, "n": 10, "n_test": 30, "by_formula": False}
    request = TransferRequest(**fields)

    def atoms(transfer: TransferRequest) -> int:
        return atoms_with_levels(store, dataset, "demo", transfer, total=100)

    assert atoms(request) == 200
    assert atoms(request.changed(levels="none")) == 0
    finished(store, took_s=1.0, **fields, dataset=dataset.id)
    assert atoms(request) == 0
    assert atoms(request.changed(seed=1)) == 200
    assert atoms(request.changed(n=20)) == 250
    without, with_levels = (
        estimate_transfer(Work("feature_gp", 10), COSTS, levels_atoms=k).seconds for k in (0, 200)
    )
    assert with_levels - without == pytest.approx(1.0)  # 0.3 s for a crystal of 60 atoms


def test_time_to_describe_an_atom_grows_with_the_parts_of_the_descriptor():
    """Measured times: CHGNet 0.6 s for a cell of 116 atoms, SOAP 23 ms for one of 134."""
    seconds = {name: describe_seconds(to_dict(config)) for name, config in PRESETS.items()}
    assert seconds["oe62-16"] == seconds["thesis-1260"] == DESCRIBE_S
    assert 116 * seconds["chgnet"] == pytest.approx(0.6, rel=0.05)
    assert 134 * (seconds["any-elements"] - DESCRIBE_S) == pytest.approx(0.023 + 0.008, rel=0.05)
    without = estimate_transfer(Work("feature_gp", 200), COSTS).seconds
    slow = estimate_transfer(
        Work("feature_gp", 200), COSTS, atoms=11_600, atom_s=seconds["chgnet"]
    ).seconds
    assert slow - without == pytest.approx(60.0, rel=0.05)
