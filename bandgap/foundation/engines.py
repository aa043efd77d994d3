"""Where maps over items are computed: in processes of this machine (local), or on a Dask cluster.

The engine is a setting of the process and of those that it starts: `BANDGAP_ENGINE` and `BANDGAP_SCHEDULER`, which
`--engine` and `--scheduler` set. Both go through joblib, whose backends these are. Results are those of a loop, bit for
bit where the machines have the same processor, in the order of the items. An item whose worker is lost is computed
again by another.
"""

import contextlib
import importlib
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

import joblib
from joblib.executor import MemmappingExecutor
from joblib.externals.loky import get_reusable_executor

from bandgap.foundation.errors import ConfigError

Name = Literal["local", "dask"]
T = TypeVar("T")

ENGINE, SCHEDULER = "BANDGAP_ENGINE", "BANDGAP_SCHEDULER"
NAMES: tuple[Name, ...] = get_args(Name)
CONNECT_S = 15  # until a scheduler must have answered
AHEAD = 4  # items that are given out at once for every process
CLOSE_S = 1.0  # until a scheduler must have answered when it is left
_DISCONNECT: list[Callable[[], object]] = []  # what closes the connections to engines elsewhere
_HERE = threading.local()  # whether this thread computes an item of a map


@dataclass(frozen=True)
class Engine:
    """An engine with the address of its scheduler, "" for none.

    Raises ConfigError for a name that does not exist, for Dask without an address, and for an address without a use.
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
                f"The engine dask needs the address of its scheduler: --scheduler tcp://HOST:8786, or {SCHEDULER}. "
                "`dask scheduler` starts one and prints it."
            )
        if self.name == "local" and self.scheduler:
            raise ConfigError(
                f"A scheduler ({self.scheduler}) is named, and the engine is local. Add --engine dask."
            )

    @property
    def remote(self) -> bool:
        """Whether others than this process's own children compute."""
        return self.name != "local"


def engine_in_use() -> Engine:
    """Return the engine of this process; inside an item of a map it is local, so that maps do not nest."""
    if inside_map():
        return Engine()
    return Engine(cast(Name, os.environ.get(ENGINE) or "local"), os.environ.get(SCHEDULER, ""))


def use_engine(name: str | None, scheduler: str | None = None) -> Engine:
    """Take an engine for this process and those that it starts; None leaves what the variables say. Return it.

    Raises ConfigError as `Engine` does, and where the engine's package is not installed or nothing answers.
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
    return bool(getattr(_HERE, "inside", False))


def mapped(
    function: Callable[..., T],
    tasks: Iterable[tuple[Any, ...]],
    *,
    n_jobs: int = 1,
    ahead: int = AHEAD,
) -> Generator[T, None, None]:
    """Yield `function(*task)` for every task, in their order, by the engine in use.

    Local with one job it is a loop in this process; local with more they are processes; an engine elsewhere uses all
    of its workers, whatever `n_jobs` is. At most `ahead` tasks for every process are out at once, so that `tasks` may
    be endless, and closing the generator leaves no more than these to be computed. Raises what `function` raises.
    """
    engine = engine_in_use()
    if not engine.remote and (n_jobs == 1 or inside_map()):
        for task in tasks:
            yield function(*task)
        return
    left = iter(tasks)
    with _parallel(engine, n_jobs) as parallel:
        window = ahead * max(1, int(parallel._effective_n_jobs()))
        while batch := list(islice(left, window)):
            yield from parallel(joblib.delayed(_inside)(function, task) for task in batch)


def end_pools() -> None:
    """End the processes and connections that this process keeps for its next map.

    Joblib keeps its processes for five minutes, and Python waits for them before it exits. What they
    still compute is lost. A later map starts new ones.
    """
    if multiprocessing.active_children():
        executor = get_reusable_executor(reuse=True, kill_workers=True)
        if isinstance(
            executor, MemmappingExecutor
        ):  # joblib's own; removes its files of large arrays too
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
    _HERE.inside = True
    try:
        return function(*task)
    finally:
        _HERE.inside = False


def _parallel(engine: Engine, n_jobs: int) -> Any:
    if not engine.remote:
        # Processes that grew by hundreds of MB or were idle for minutes are replaced, with a warning in the thread of
        # joblib that gives out the items. As an error it would end that thread, and the map would wait for ever.
        warnings.filterwarnings(
            "ignore", message="A worker stopped while some jobs", category=UserWarning
        )
        return joblib.Parallel(n_jobs=n_jobs, backend="loky")
    with joblib.parallel_config(**_dask(engine.scheduler)):
        return joblib.Parallel(n_jobs=-1, batch_size=1)


@lru_cache(maxsize=4)
def _dask(scheduler: str) -> dict[str, Any]:
    """Connect to a scheduler, once a process, and return the settings of joblib's backend."""
    distributed = _package("distributed", extra="dask")
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_S, set_as_default=False)
        _DISCONNECT.append(lambda: client.close(timeout=CLOSE_S))
        found = client.run(version, "bandgap")
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"No Dask scheduler answers at {scheduler} ({error}). `dask scheduler` starts one, `dask worker "
            f"{scheduler} --nthreads 1` a worker."
        ) from error
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"bandgap is not installed where the workers of {scheduler} run: {error}."
        ) from error
    if not found:
        raise ConfigError(
            f"{scheduler} has no workers. Start some: `dask worker {scheduler} --nthreads 1`."
        )
    _check_versions(scheduler, set(found.values()))
    return {"backend": "dask", "client": client}


def _check_versions(where: str, found: set[str]) -> None:
    own = version("bandgap")
    if found != {own}:
        raise ConfigError(
            f"The workers of {where} have bandgap {', '.join(sorted(found))}, this process has {own}. Install one "
            "version on all."
        )


def _package(name: str, *, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"The engine {extra} needs the package {name}, which is not installed. Install it by "
            f"`pip install -c constraints.txt '.[{extra}]'` in the folder of bandgap's README, also for the workers."
        ) from None
