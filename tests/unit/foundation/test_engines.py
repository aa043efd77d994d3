"""Maps over items: order, laziness and nesting of the local engine, and refused engines."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandgap.foundation import engines
from bandgap.foundation.engines import (
    ENGINE,
    SCHEDULER,
    Engine,
    end_pools,
    engine_in_use,
    inside_map,
    mapped,
    use_engine,
)
from bandgap.foundation.errors import BandgapError, ConfigError
from bandgap.jobs.lock import REFUSED

KEPT: list[bytes] = []


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine is set, and one that a test sets is forgotten."""
    for name in (ENGINE, SCHEDULER):
        monkeypatch.setenv(name, "")


def square(x: int) -> tuple[int, bool, int]:
    return x * x, inside_map(), os.getpid()


def nested(x: int) -> list[int]:
    return [value for value, _, _ in mapped(square, [(x,), (x + 1,)], n_jobs=4)]


def grown(x: int) -> int:
    """Keep so much more memory after the first item that joblib replaces the process."""
    KEPT.append(b"." * (1 if x < 2 else 400_000_000))
    time.sleep(1.2)  # it looks once a second
    return x


def failing(x: int) -> int:
    if x == 3:
        raise ConfigError("item 3 is wrong")
    return x


def killed_once(x: int, marks: Path) -> int:
    """Return the item; the process that receives the third or the twentieth first is killed."""
    mark = marks / str(x)
    if x in (3, 20) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def killed(x: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(n_jobs: int) -> None:
    results = list(mapped(square, ((x,) for x in range(40)), n_jobs=n_jobs))
    assert [value for value, _, _ in results] == [x * x for x in range(40)]
    assert all(inside == (n_jobs > 1) for _, inside, _ in results)
    assert (os.getpid() in {pid for _, _, pid in results}) == (n_jobs == 1)
    assert not inside_map()


def test_maps_inside_an_item_are_loops() -> None:
    assert list(mapped(nested, [(1,), (5,)], n_jobs=2)) == [[1, 4], [25, 36]]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_error_of_an_item_is_raised_as_it_is(n_jobs: int) -> None:
    with pytest.raises(ConfigError, match="item 3 is wrong"):
        list(mapped(failing, ((x,) for x in range(9)), n_jobs=n_jobs))


def test_items_of_killed_processes_are_computed_again(tmp_path: Path) -> None:
    results = list(mapped(killed_once, ((x, tmp_path) for x in range(40)), n_jobs=2))
    assert results == list(range(40)) and len(list(tmp_path.iterdir())) == 2


def test_item_whose_process_is_killed_twice_is_reported() -> None:
    with pytest.raises(BandgapError, match="was killed twice, probably as memory ran out"):
        list(mapped(killed, ((x,) for x in range(4)), n_jobs=2))


def test_process_that_grew_is_replaced_where_warnings_are_errors() -> None:
    """Joblib warns in the thread that submits items; as an error the warning would end it."""
    pytest.importorskip("psutil")  # by which joblib looks
    assert list(mapped(grown, [(x,) for x in range(6)], n_jobs=2)) == list(range(6))


def test_end_pools_ends_the_processes_and_a_later_map_starts_others() -> None:
    first = {pid for _, _, pid in mapped(square, [(x,) for x in range(8)], n_jobs=2)}
    assert first & {process.pid for process in multiprocessing.active_children()}
    end_pools()
    assert multiprocessing.active_children() == []
    second = {pid for _, _, pid in mapped(square, [(x,) for x in range(8)], n_jobs=2)}
    assert second and not first & second
    end_pools()
    end_pools()  # without processes


@pytest.mark.parametrize(("n_jobs", "most"), [(1, 1), (2, 8)])
def test_endless_tasks_are_submitted_only_ahead(n_jobs: int, most: int) -> None:
    submitted = []

    def endless() -> Iterator[tuple[int]]:
        while True:
            submitted.append(len(submitted))
            yield (submitted[-1],)

    results = mapped(square, endless(), n_jobs=n_jobs)
    assert next(results)[0] == 0
    results.close()
    assert len(submitted) == most


def test_variables_and_options_set_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_in_use() == Engine("local") and not Engine("local").remote
    monkeypatch.setattr(engines, "_dask", lambda scheduler: {})
    assert use_engine("dask", "tcp://a:1") == Engine("dask", "tcp://a:1") == engine_in_use()
    assert use_engine(None) == Engine("dask", "tcp://a:1")


def test_missing_package_is_one_sentence_with_the_command() -> None:
    script = "import sys; sys.modules['distributed'] = None; from bandgap.cli import main; main()"
    words = [
        "featurize",
        "--structures=a.cif",
        "--preset=oe62-16",
        "--out=a.npz",
        "--engine=dask",
        "--scheduler=x:1",
    ]
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install -c constraints.txt '.[dask]'" in done.stderr
    assert (
        "The engine dask needs the package distributed" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_worker_of_the_dashboard_says_what_is_wrong_with_its_engine() -> None:
    command = [sys.executable, "-m", "bandgap.jobs.worker"]
    done = subprocess.run(
        command, env={**os.environ, ENGINE: "spark"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == REFUSED and done.stderr.startswith(
        "engine is 'spark'. Accepted: local, dask ("
    )
