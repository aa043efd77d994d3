"""Work on Ray, some of its workers killed in the middle: the bytes of local."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bandgap.descriptors import featurize
from bandgap.foundation.engines import ENGINE, SCHEDULER, mapped
from bandgap.foundation.errors import BandgapError, ConfigError
from bandgap.foundation.progress import Update
from bandgap.runs.chunks import ChunkPlan, predict_chunks
from bandgap.runs.prediction import predict_run
from bandgap.runs.transfer import transfer_run
from tests.unit.conftest import World, make_records

pytestmark = pytest.mark.slow
QUICK = {"training": {"max_epochs": 10, "batch_size": 8}}


def power(x: float) -> np.ndarray:
    return np.full(3, x) ** 1.5


def lost_once(x: float, marks: str) -> np.ndarray:
    """Return a power; the first worker that is given the tenth item is killed at it, as by the system."""
    mark = Path(marks) / "lost"
    if x == 10.0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return power(x)


def always_lost(x: float) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def refused(x: float) -> float:
    if x == 3.0:
        raise ConfigError("3 is not accepted. Give another number.")
    return x


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """Two workers of Ray on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture
def on_ray(ray_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray as the engine of this process."""
    monkeypatch.setenv(ENGINE, "ray")
    monkeypatch.setenv(SCHEDULER, "")


def test_ray_gives_the_same_bytes_in_the_same_order(
    on_ray: None, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.descriptors.vectors.PROCESSES_FROM_ATOMS", 0)
    monkeypatch.setattr("bandgap.descriptors.vectors.CHUNK_ATOMS", 40)
    records = make_records(200, seed=32, prefix="new")
    numbers = [(float(x),) for x in range(30)]
    elsewhere = featurize(records, world.descriptor).features.tobytes()
    found = list(mapped(power, numbers))
    monkeypatch.setenv(ENGINE, "")
    assert elsewhere == featurize(records, world.descriptor).features.tobytes()
    assert [row.tobytes() for row in found] == [power(*x).tobytes() for x in numbers]


def test_ray_computes_again_what_a_killed_worker_had(on_ray: None, tmp_path: Path) -> None:
    found = list(mapped(lost_once, [(float(x), str(tmp_path)) for x in range(40)]))
    assert (tmp_path / "lost").exists()
    assert [row.tobytes() for row in found] == [power(float(x)).tobytes() for x in range(40)]


def test_predictions_on_ray_are_the_same_rows_though_its_workers_are_killed(
    on_ray: None, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.runs.chunks.PROCESSES_FROM", 0)
    psutil = pytest.importorskip("psutil")
    records = [*make_records(60, seed=32, prefix="new"), world.broken, world.foreign]
    how = {"method": "fine_tune", "settings": QUICK, "n": 18, "n_test": 6, "seed": 1, "device": "cpu"}
    monkeypatch.setenv(ENGINE, "")
    model = transfer_run(source_folder, world.records, world.gaps_eV, out=tmp_path / "run", **how)
    alone = predict_run(model, records).to_csv()
    monkeypatch.setenv(ENGINE, "ray")
    killed: list[int] = []

    def note(update: Update, /) -> None:
        if update.done > 8 and not killed:
            titles = {p: " ".join(p.cmdline()[:1]) for p in psutil.Process().children(recursive=True)}
            workers = [p for p, title in titles.items() if title.startswith("ray::_inside")]
            killed.extend(p.pid for p in workers)
            for process in workers:
                process.kill()

    found = list(predict_chunks(records, ChunkPlan(Path(model), size=4), n=len(records), progress=note))
    assert killed
    assert "".join(chunk.predictions.to_csv().partition("\n")[2] for chunk in found) == alone.partition("\n")[2]


def test_what_an_item_raises_on_ray_is_raised_here_as_it_was(on_ray: None) -> None:
    with pytest.raises(ConfigError, match=r"^3 is not accepted\. Give another number\.$"):
        list(mapped(refused, [(float(x),) for x in range(8)]))


def test_item_that_costs_ray_every_worker_is_given_up_with_a_sentence(on_ray: None) -> None:
    with pytest.raises(BandgapError, match=r"Workers of Ray were lost 4 times at the same item"):
        list(mapped(always_lost, [(1.0,)]))
