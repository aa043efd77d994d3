"""The estimated time of training a source model: counted work, rates, past trainings."""

import math
import uuid
from dataclasses import replace

import pytest

from bandgap.descriptors import PRESETS, config_for, n_features
from bandgap.jobs.estimates import START_S, Estimate
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Verdict
from bandgap.jobs.server_files import ServerFile
from bandgap.jobs.source_estimates import (
    ADAM,
    GRAPH_S,
    SNAPSHOT_EPOCHS,
    SNAPSHOTS,
    TRAINED_SHARE,
    VARIATIONAL,
    VARIATIONAL_EPOCHS,
    Molecules,
    PastTraining,
    SourceWork,
    descriptor_features,
    estimate_source,
    molecules_in,
    molecules_of,
    past_trainings,
    reference_seconds,
    requested_work,
)
from bandgap.jobs.store import JobStore
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import kl_weights_to_try
from bandgap.runs.requests import SourceRequest

WS = str(uuid.uuid4())
WORK = SourceWork(n=6_000, atoms=180_000, features=1_260, hidden=(128, 64), epochs=100)


def past(work: SourceWork, factor: float, **more) -> PastTraining:
    return PastTraining(work, factor * reference_seconds(work), **more)


@pytest.mark.parametrize(
    ("more", "least"),
    [
        ({"n": 12_000, "atoms": 360_000}, 1.9),
        ({"epochs": 200}, 1.5),
        ({"hidden": (256, 128)}, 1.3),
        ({"features": 5_472}, 2.0),
    ],
    ids=["structures", "epochs", "width", "features"],
)
def test_reference_grows_with_the_work(more, least):
    seconds = [reference_seconds(work) - START_S for work in (WORK, replace(WORK, **more))]
    assert least < seconds[1] / seconds[0] < 5


def test_parts_that_some_transfers_ask_for_come_on_top_of_the_training():
    plain, varied, with_snapshots = (
        reference_seconds(work)
        for work in (WORK, replace(WORK, variational=True), replace(WORK, snapshots=True))
    )
    assert plain < with_snapshots < varied
    variational = kl_weights_to_try()
    assert sum(config.epochs for config in variational) == VARIATIONAL_EPOCHS
    assert SnapshotConfig().burn_in + SnapshotConfig().count == SNAPSHOT_EPOCHS
    assert 1 - TrainingConfig().validation_share == pytest.approx(TRAINED_SHARE)
    assert [part[-1] for part in (ADAM, VARIATIONAL, SNAPSHOTS)] == [
        config.batch_size for config in (TrainingConfig(), variational[0], SnapshotConfig())
    ]


def test_weights_and_features_are_those_of_the_network_and_the_descriptor():
    shapes = NetworkConfig(WORK.features, WORK.hidden).shapes
    assert WORK.weights == sum(
        math.prod(shape) for name, shape in shapes.items() if name.startswith("weight")
    )
    for elements in (("H", "O"), PRESETS["thesis-1260"].species, PRESETS["oe62-16"].species):
        assert descriptor_features(len(elements)) == n_features(config_for(species=elements))


def test_without_past_trainings_the_estimate_is_the_reference_on_a_cpu_and_none_on_a_gpu():
    assert estimate_source(WORK) == Estimate(reference_seconds(WORK), "reference")
    on_gpu = replace(WORK, device="cuda")
    assert estimate_source(on_gpu, past=[past(WORK, 2.0)]) is None
    estimate = estimate_source(on_gpu, past=[past(on_gpu, 0.25), past(WORK, 2.0)])
    assert estimate == Estimate(
        pytest.approx(0.25 * reference_seconds(WORK)), "this method here", 1
    )


def test_earlier_trainings_correct_the_rates_by_their_median_and_short_ones_do_not():
    short = SourceWork(n=60, atoms=180, features=180, hidden=(6, 4), epochs=3)
    runs = [
        past(short, 9.0),
        *(past(replace(WORK, epochs=e), f) for e, f in ((40, 3.0), (60, 1.0), (80, 2.0))),
    ]
    assert estimate_source(WORK, past=runs) == Estimate(
        pytest.approx(2.0 * reference_seconds(WORK)), "this method here", 3
    )
    assert estimate_source(short, past=runs[:1]).seconds == pytest.approx(
        9.0 * reference_seconds(short)
    )
    assert estimate_source(WORK, past=runs[:1]).basis == "reference"


def test_graph_network_adds_its_epochs_over_atoms_and_is_corrected_by_its_like_alone():
    graph = replace(WORK, graph=True)
    assert reference_seconds(graph) - reference_seconds(WORK) == pytest.approx(
        100 * 180_000 * GRAPH_S
    )
    runs = [past(WORK, 3.0), past(graph, 2.0)]
    assert estimate_source(graph, past=runs).seconds == pytest.approx(
        2.0 * reference_seconds(graph)
    )
    assert estimate_source(WORK, past=runs).seconds == pytest.approx(3.0 * reference_seconds(WORK))
    molecules = Molecules(6_000, 180_000, 7)
    request = SourceRequest(max_epochs=100, hidden=(128, 64), network="megnet")
    assert requested_work(request, molecules, features=1_260, device="cpu") == graph


def test_data_set_gives_its_labelled_structures_their_atoms_and_elements(tmp_path):
    library = Library(Home(tmp_path))
    dataset = library.add_dataset(WS, "set")
    rows = [("ready", "CH4", 5, 1.0), ("ready", "CH4", 5, 2.0), ("warning", "C2H3Cl", 6, 3.0)]
    rows += [("ready", "OsO4", 5, None), ("refused", "NaF", 2, 4.0)]
    verdicts = [
        Verdict(str(k), "f", s, "", f, n, False, gap, {}) for k, (s, f, n, gap) in enumerate(rows)
    ]
    library.save_verdicts(dataset.id, verdicts)
    assert molecules_of(library, dataset.id) == Molecules(n=3, atoms=16, elements=3)


def test_file_of_the_server_is_guessed_by_its_size_until_a_training_has_counted_it():
    file = ServerFile("df_62k.json", 290_000_000)
    guess = molecules_in(file)
    assert guess.guessed and guess.n == pytest.approx(61_489, rel=0.05)
    assert molecules_in(ServerFile("df_62k.json.gz", 290_000_000)).n > 2 * guess.n
    other_training = past(WORK, 1.0, file="other.json")
    assert molecules_in(file, past=[other_training]) == guess
    counted = molecules_in(file, past=[other_training, past(WORK, 1.0, file=file.name)])
    assert counted == Molecules(WORK.n, WORK.atoms, guess.elements)


def test_past_trainings_are_read_from_what_their_jobs_noted(tmp_path):
    store = JobStore(Home(tmp_path))
    work = {"n": 90, "atoms": 270, "features": 180, "epochs": 7, "device": "cpu"}
    results = ({"folder": "f", "work": work}, {"folder": "of an older version"})
    request = SourceRequest(hidden=(256, 128), snapshots=20)
    payload = {"file": "df.json", "request": request.to_values()}
    for took_s, result in zip((40.0, 50.0), results, strict=True):
        job = store.submit(
            str(uuid.uuid4()), "train_source", title="t", payload=payload, subject="s"
        )
        assert store.claim("w") is not None
        store.end(job.id, "finished", result=result)
        with store.database.writing() as connection:
            connection.execute(
                "UPDATE job SET started = 100.0, finished = ? WHERE id = ?",
                (100.0 + took_s, job.id),
            )
    done = SourceWork(90, 270, 180, (256, 128), 7, snapshots=True)
    assert past_trainings(store) == [PastTraining(done, 40.0, "df.json")]
    requested = requested_work(request, Molecules(90, 270, 2), features=180, device="cpu")
    assert requested == replace(done, epochs=150)
