"""Where maps over items are computed: in processes of this machine (local), or on a Dask cluster.

The engine is a setting of the process and of its child processes: `BANDGAP_ENGINE` and
`BANDGAP_SCHEDULER`, which `--engine` and `--scheduler` set. Both engines are backends of joblib.
Results are those of a loop, bit for bit where the machines have the same processor, in the order of
the items. The item of a worker that is lost is computed again by another one.
"""

import contextlib
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import islice
from typing import Any, Literal, TypeVar, cast, get_args

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.extras import package
from bandgap.foundation.forks import Task, repeating_lost_tasks

Name = Literal["local", "dask"]
T = TypeVar("T")

ENGINE = "BANDGAP_ENGINE"
SCHEDULER = "BANDGAP_SCHEDULER"
NAMES: tuple[Name, ...] = get_args(Name)
CONNECT_S = 15  # time limit for the answer of a scheduler
AHEAD = 4  # items for each process that are submitted before they are needed
CLOSE_S = 1.0  # time limit for the answer of a scheduler when its connection is closed
_DISCONNECT: list[Callable[[], object]] = []  # functions that close the connections to schedulers
_THREAD = threading.local()  # whether this thread computes an item of a map


@dataclass(frozen=True)
class Engine:
    """An engine with the address of its scheduler, "" for none.

    Raises ConfigError for an unknown name, for Dask without an address, and for an address that the
    engine does not use.
    """

    name: Name = "local"
    scheduler: str = ""

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ConfigError(
                f"engine is {self.name!r}. Accepted: {', '.join(NAMES)} (--engine or {ENGINE})."
            )
        if self.name == "dask" and not self.scheduler:
            raise ConfigError(
                "The engine dask needs the address of its scheduler: --scheduler"
                f" tcp://HOST:8786, or {SCHEDULER}. `dask scheduler` starts one and prints it."
            )
        if self.name == "local" and self.scheduler:
            raise ConfigError(
                f"A scheduler ({self.scheduler}) is named, and the engine is local. Add --engine"
                " dask."
            )

    @property
    def remote(self) -> bool:
        """Whether processes compute that are not children of this one."""
        return self.name != "local"


def engine_in_use() -> Engine:
    """Return the engine of this process.

    Inside an item of a map it is local, so that maps do not nest.
    """
    if inside_map():
        return Engine()
    return Engine(cast(Name, os.environ.get(ENGINE) or "local"), os.environ.get(SCHEDULER, ""))


def use_engine(name: str | None, scheduler: str | None = None) -> Engine:
    """Set and return the engine of this process and of the processes that it starts.

    None leaves what the environment variables say. Raises ConfigError as `Engine` does, and if the
    engine's package is not installed or no scheduler answers.
    """
    for variable, value in ((ENGINE, name), (SCHEDULER, scheduler)):
        if value is not None:
            os.environ[variable] = value
    engine = engine_in_use()
    if engine.remote:
        _dask(engine.scheduler)
    return engine


def inside_map() -> bool:
    """Return whether this thread computes an item of a map, whose own maps are then loops."""
    return bool(getattr(_THREAD, "inside", False))


def mapped(
    function: Callable[..., T],
    tasks: Iterable[Task],
    *,
    n_jobs: int = 1,
    ahead: int = AHEAD,
) -> Generator[T, None, None]:
    """Yield `function(*task)` for every task, in their order, computed by the engine in use.

    Parameters
    ----------
    function
        Function of the arguments of a task. What it raises is raised here.
    tasks
        Tuples of arguments; may be endless.
    n_jobs
        Number of local processes; with one job the map is a loop in this process. A remote engine
        uses all of its workers.
    ahead
        Tasks for each process that are submitted before they are needed. After the generator is
        closed, at most these are still computed.

    Raises
    ------
    BandgapError
        If a local process is killed twice (`repeating_lost_tasks`).
    """
    engine = engine_in_use()
    if not engine.remote and (n_jobs == 1 or inside_map()):
        for task in tasks:
            yield function(*task)
        return
    from joblib import delayed

    def by_joblib(tasks: Iterable[Task]) -> Generator[T, None, None]:
        remaining_tasks = iter(tasks)
        with _parallel(engine, n_jobs) as parallel:
            window = ahead * max(1, int(parallel._effective_n_jobs()))
            while batch := list(islice(remaining_tasks, window)):
                yield from parallel(delayed(_inside)(function, task) for task in batch)

    yield from repeating_lost_tasks(by_joblib, tasks)


def end_pools() -> None:
    """End the processes and connections that this process keeps for its next map.

    Joblib keeps its processes for five minutes, and Python waits for them before it exits. What
    they still compute is lost. A later map starts new ones.
    """
    if multiprocessing.active_children():
        from joblib.executor import MemmappingExecutor
        from joblib.externals.loky import get_reusable_executor

        executor = get_reusable_executor(reuse=True, kill_workers=True)
        if isinstance(executor, MemmappingExecutor):
            # the executor of joblib, which also removes its files of large arrays
            executor.terminate(kill_workers=True)
        else:
            executor.shutdown(wait=True, kill_workers=True)
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    for disconnect in _DISCONNECT:
        with contextlib.suppress(OSError, TimeoutError):
            disconnect()
    _DISCONNECT.clear()
    _dask.cache_clear()


def _inside(function: Callable[..., T], task: tuple[Any, ...]) -> T:
    _THREAD.inside = True
    try:
        return function(*task)
    finally:
        _THREAD.inside = False


def _parallel(engine: Engine, n_jobs: int) -> Any:
    import joblib  # takes a tenth of a second

    if not engine.remote:
        # Processes that grew by hundreds of MB or were idle for minutes are replaced, with a
        # warning in the thread of joblib that submits the items. As an error it would end that
        # thread, and the map would wait for ever.
        warnings.filterwarnings(
            "ignore", message="A worker stopped while some jobs", category=UserWarning
        )
        return joblib.Parallel(n_jobs=n_jobs, backend="loky")
    with joblib.parallel_config(**_dask(engine.scheduler)):
        return joblib.Parallel(n_jobs=-1, batch_size=1)


@lru_cache(maxsize=4)
def _dask(scheduler: str) -> dict[str, Any]:
    """Connect to a scheduler, once a process, and return the settings of joblib's backend."""
    distributed = package(
        "distributed", extra="dask", user="The engine dask", end=", also for the workers"
    )
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_S, set_as_default=False)
        _DISCONNECT.append(lambda: client.close(timeout=CLOSE_S))
        versions_by_worker = client.run(version, "bandgap")
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"No Dask scheduler answers at {scheduler} ({error}). `dask scheduler` starts one,"
            f" `dask worker {scheduler} --nthreads 1` a worker."
        ) from error
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"bandgap is not installed where the workers of {scheduler} run: {error}."
        ) from error
    if not versions_by_worker:
        raise ConfigError(
            f"{scheduler} has no workers. Start some: `dask worker {scheduler} --nthreads 1`."
        )
    _check_versions(scheduler, set(versions_by_worker.values()))
    return {"backend": "dask", "client": client}


def _check_versions(scheduler: str, worker_versions: set[str]) -> None:
    this_version = version("bandgap")
    if worker_versions != {this_version}:
        raise ConfigError(
            f"The workers of {scheduler} have bandgap {', '.join(sorted(worker_versions))}, this"
            f" process has {this_version}. Install one version on all."
        )
