"""The estimated time of a job: measured rates, and past jobs of the server."""

import uuid
from typing import Any

import pytest

from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.entries import SystemEntry
from bandgap.jobs.estimates import FEATURES_S, METALS, POTENTIALS_S, START_S, Estimate, JobTimes
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Verdict
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import TransferRequest
from bandgap.sources.cards import NO_SOURCE
from bandgap.transfer import METHODS
from bandgap.transfer.shared.cost import default_iterations
from tests.unit.jobs.payloads import source_payload, transfer_payload

WS = str(uuid.uuid4())
TRAINING = {"hidden": (6, 4), "max_epochs": 100}
STRUCTURE_S = FEATURES_S[0]  # of a structure without atoms, as in a data set that is not stored


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
    result: dict[str, Any] | None = None,
    workspace: str = WS,
) -> None:
    job = store.submit(workspace, kind, title="t", payload=payload, subject="s")
    assert store.claim("w") is not None
    store.end(job.id, "finished", result=result or {})
    with store.database.writing() as connection:
        connection.execute("UPDATE job SET started = finished - ? WHERE id = ?", (took_s, job.id))


def add_transfer(store: JobStore, *, took_s: float, workspace: str = WS, **changed) -> None:
    result = {"resumed": changed.pop("resumed", False)}
    fields = {"method": "bnn", "n": 60, "dataset": "d", "source": "demo", "run": "r"}
    payload = transfer_payload(**fields | changed)
    add_finished(store, "transfer", payload, took_s=took_s, result=result, workspace=workspace)


def add_training(store: JobStore, *, took_s: float, **changed) -> None:
    payload = source_payload(source="s", **{**TRAINING, "file": "df.json", **changed})
    add_finished(store, "train_source", payload, took_s=took_s)


def estimated(store: JobStore, method: str, n: int, *, dataset: str = "new", **more):
    request = TransferRequest(method=method, n=n, **more)
    return JobTimes(store, Library(store.home)).transfer(dataset, "demo", request)


def fit_s(store: JobStore, method: str, n: int, **more) -> float:
    estimate = estimated(store, method, n, **more)
    assert estimate is not None
    return estimate.seconds - START_S - n * STRUCTURE_S


def training(store: JobStore, **changed) -> Estimate | None:
    payload = source_payload(source="s", **{**TRAINING, "file": "df.json", **changed})
    return JobTimes(store, Library(store.home)).estimate("train_source", payload)


def stored_set(store: JobStore, *, periodic: bool = False, first_eV: float = 1.0) -> str:
    """Add a data set of two usable structures of 10 atoms with a gap, and of others."""
    library = Library(store.home)
    dataset = library.add_dataset(WS, "set")
    rows = [("ready", 5, first_eV), ("warning", 15, 3.0), ("ready", 5, None), ("refused", 2, 4.0)]
    verdicts = [
        Verdict(str(k), "f", status, "", "CH4", n, periodic, gap, {})
        for k, (status, n, gap) in enumerate(rows)
    ]
    library.save_verdicts(dataset.id, verdicts)
    return dataset.id


@pytest.mark.parametrize("method", list(METHODS))
def test_first_estimate_is_the_cost_at_the_measured_sizes_and_then_grows_with_n(store, method):
    cost = METHODS[method].cost
    assert fit_s(store, method, 200) == pytest.approx(cost.large_s)
    assert fit_s(store, method, 50) == pytest.approx(min(cost.small_s, cost.large_s))
    assert fit_s(store, method, 800) >= 3.99 * fit_s(store, method, 200)


def test_sampler_takes_as_long_as_its_iterations(store):
    usual = fit_s(store, "btl_pcp_pe", 200)
    half = {"sampler": {"warmup": 0, "draws": default_iterations("partially centred") // 2}}
    assert fit_s(store, "btl_pcp_pe", 200, settings=half) == pytest.approx(usual / 2)
    assert fit_s(store, "fine_tune", 200, settings=half) == fit_s(store, "fine_tune", 200)


def test_last_five_runs_of_the_same_method_correct_its_rate_by_their_median(store):
    work_s = 150 * STRUCTURE_S + fit_s(store, "nptl", 150)
    for number, factor in enumerate((90.0, 90.0, 90.0, 3.0, 1.0, 2.0, 2.0, 2.0)):
        took_s = factor * (START_S + work_s)
        add_transfer(store, took_s=took_s, method="nptl", n=150, dataset=f"d{number}")
    add_transfer(store, took_s=50.0 * work_s, method="fine_tune")
    seconds = 2.0 * (START_S + 200 * STRUCTURE_S + METHODS["nptl"].cost.large_s)
    assert estimated(store, "nptl", 200) == Estimate(pytest.approx(seconds), 5)


def test_a_slow_start_does_not_multiply_long_work(store):
    add_transfer(store, took_s=2.0 * START_S, method="nptl", n=20)
    rates_s = START_S + METHODS["nptl"].cost.seconds(5000, None) + 5000 * STRUCTURE_S
    assert estimated(store, "nptl", 5000).seconds < 2.0 * rates_s


def test_runs_of_all_workspaces_count_and_resumed_ones_do_not(store):
    add_transfer(store, took_s=30.0)
    add_transfer(store, took_s=30.0, dataset="other", workspace=str(uuid.uuid4()))
    add_transfer(store, took_s=1.0, dataset="third", resumed=True)
    assert estimated(store, "bnn", 60) == Estimate(pytest.approx(30.0), 2)


def test_structures_are_described_once_and_levels_of_crystals_take_longest(store):
    molecules, crystals = stored_set(store), stored_set(store, periodic=True)

    def seconds(dataset: str, levels: str) -> float:
        return fit_s(store, "feature_gp", 100, dataset=dataset, levels=levels)

    without, of_molecules, of_crystals = (
        seconds(molecules, "none"),
        seconds(molecules, "GFN1-xTB"),
        seconds(crystals, "GFN1-xTB"),
    )
    assert without - seconds("new", "none") == pytest.approx(100 * 10 * FEATURES_S[1])
    assert without < of_molecules < of_crystals
    for n in (60, 30):  # then 40 of 100 structures are new
        request = {"n": n, "dataset": crystals, "levels": "GFN1-xTB", "source": "demo"}
        add_transfer(store, took_s=60.0, method="ensemble", **request)
    again = (
        seconds(crystals, "GFN1-xTB")
        + 100 * STRUCTURE_S
        - METHODS["feature_gp"].cost.seconds(100, None)
    )
    first = of_crystals + 100 * STRUCTURE_S - METHODS["feature_gp"].cost.seconds(100, None)
    assert again == pytest.approx(0.4 * first)


def test_metals_among_the_labels_take_a_classifier(store):
    without, with_metals = (stored_set(store, first_eV=gap_eV) for gap_eV in (1.0, 0.0))
    for n, more_s in ((100, METALS.seconds(100, None)), (16, 0.0)):  # 8 of 16 are too few
        seconds = [fit_s(store, "feature_gp", n, dataset=one) for one in (without, with_metals)]
        assert seconds[1] - seconds[0] == pytest.approx(more_s)


def test_potentials_of_this_machine_describe_the_structures_without_a_source(store):
    dataset = stored_set(store)
    library = Library(store.home)

    def seconds(source: str) -> float:
        request = TransferRequest(method="feature_gp", n=100)
        estimate = JobTimes(store, library).transfer(dataset, source, request)
        assert estimate is not None
        return estimate.seconds

    usual = seconds(NO_SOURCE)
    library.register_system(SystemEntry(potentials=("chgnet", "sevennet")))
    of_potentials = sum(s + 10 * atom_s for s, atom_s in POTENTIALS_S.values())
    assert seconds(NO_SOURCE) - usual == pytest.approx(100 * of_potentials)
    assert seconds("demo") == usual


def test_training_is_estimated_by_the_last_ones_of_its_kind(store):
    assert training(store) is None
    for took_s in (START_S + 10.0, START_S + 20.0, START_S + 60.0):
        add_training(store, took_s=took_s)
    assert training(store) == Estimate(pytest.approx(START_S + 20.0), 3)
    assert training(store, max_epochs=200) == Estimate(pytest.approx(START_S + 40.0), 3)


@pytest.mark.parametrize(
    "changed",
    [{"network": "megnet"}, {"variational": True}, {"snapshots": 20}, {"file": "other.json"}],
    ids=["network", "variational", "snapshots", "file"],
)
def test_training_of_another_kind_does_not_count(store, changed):
    add_training(store, took_s=20.0)
    assert training(store, **changed) is None


def test_training_on_a_data_set_takes_as_long_as_its_atoms(store):
    dataset, larger = stored_set(store), Library(store.home).add_dataset(WS, "larger").id
    verdicts = [Verdict(str(k), "f", "ready", "", "CH4", 10, False, 1.0, {}) for k in range(6)]
    Library(store.home).save_verdicts(larger, verdicts)
    payload = source_payload(source="s", dataset=dataset, **TRAINING)
    add_finished(store, "train_source", payload, took_s=START_S + 10.0)
    payload = source_payload(source="s", dataset=larger, **TRAINING)
    times = JobTimes(store, Library(store.home))
    assert times.estimate("train_source", payload) == Estimate(pytest.approx(START_S + 30.0), 1)
