"""Predictions of any number of structures, chunk by chunk in the order of the input.

The rows are those of `predict_run`.
"""

import contextlib
import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import fingerprint
from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.forks import can_fork, mapped_by_forks
from bandgap.foundation.machine import few_blas_threads, set_threads
from bandgap.foundation.progress import RATE, Progress, Update, no_progress
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import Predictions
from bandgap.runs.prediction import (
    as_requested,
    load_for,
    predict_records,
)
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import DOMAIN, DRAWS, Run
from bandgap.storage.manifests import CALIBRATOR, KNOWN, MANIFEST
from bandgap.structures import StructureRecord
from bandgap.structures.packed import PackedRecord, unpack
from bandgap.structures.spool import Spool

if TYPE_CHECKING:
    from bandgap.datasets.own_features import OwnFeatures
    from bandgap.evaluation.calibrators import Calibrator

FIRST = 128  # structures that are predicted before processes are forked
PROCESSES_FROM = (
    2_000  # structures from which chunks are spread over processes; of fewer, only descriptors
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive structures of an input, and their predictions."""

    packed_records: "_Records"
    predictions: Predictions
    details: PredictionDetails | None = None  # row numbers start at 0

    def __len__(self) -> int:
        return len(self.packed_records)

    @property
    def records(self) -> tuple[StructureRecord, ...]:
        """The structures; packed ones are unpacked at every call."""
        return tuple(map(unpack, self.packed_records))


@dataclass(frozen=True)
class ChunkPlan:
    """How an input is predicted: folder of the run, request, cache, and own features, if any.

    The rows do not depend on the request's `chunk_size` and `n_jobs`.
    """

    model_folder: Path
    request: PredictRequest = PredictRequest()
    cache: DescriptorCache | None = None
    user_features: "OwnFeatures | None" = None


def predict_chunks(
    records: Iterable[StructureRecord] | Spool,
    plan: ChunkPlan,
    *,
    n: int | Callable[[], int | None],
    first: int = 0,
    baseline_eV: Floats | None = None,
    labelled: NDArray[np.bool_] | None = None,
    progress: Progress = no_progress,
) -> Iterator[Chunk]:
    """Yield the predictions of records in chunks, from number `first` on.

    With several processes, or on a remote engine, each process predicts whole chunks with one
    thread. Memory then contains at most twice as many chunks as there are processes. The workers of
    a remote engine must be able to read the folder of the run.

    Parameters
    ----------
    records
        Structures to predict.
    plan
        Run, request and cache.
    n
        Number of records. While records are still being read, a function that returns it, or None
        as long as it is not known.
    first
        Number of the first record to predict.
    baseline_eV
        Baseline of every record, (n,), in eV, if the run needs one. The caller checks it.
    labelled
        Whether the gap of each record is known, (n,). If given, chunks have details.
    progress
        Called after every chunk; may raise `Cancelled`.

    Raises
    ------
    ConfigError, InputError
        As `predict_run`.
    """
    total_now = n if callable(n) else lambda: n
    request = plan.request
    has_workers = request.n_jobs > 1 or engine_in_use().remote
    items: Iterable[StructureRecord | PackedRecord] = records
    if has_workers and isinstance(records, Spool):
        items = records.packed()
    if plan.user_features is not None:
        items = plan.user_features.joined(items)
    items_to_do = islice(items, first, None)
    # where the total is unknown, wait for PROCESSES_FROM records or for the end
    head = list(islice(items_to_do, PROCESSES_FROM)) if total_now() is None else []
    total = total_now()
    n_to_do = len(head) if total is None else total - first
    is_parallel = has_workers and n_to_do >= PROCESSES_FROM
    size = request.chunk_size
    if is_parallel:
        size = max(1, min(size, -(-n_to_do // request.n_jobs)))
    tasks = _tasks_of(
        chain(head, items_to_do), size=size, first=first, baseline_eV=baseline_eV, labelled=labelled
    )
    started = time.monotonic()
    update = Update("predicting", first, total)

    def report_within_chunk(inner: Update, /) -> None:  # lets the user cancel within a slow chunk
        progress(
            replace(
                update, message=f"{inner.phase}, {inner.done:,} of the next {inner.total or 0:,}"
            )
        )

    progress(update)
    chunks = (
        _predict_in_parallel(tasks, plan)
        if is_parallel
        else _predict_here(tasks, plan, report_within_chunk)
    )
    for chunk in chunks:
        done = update.done + len(chunk)
        rate = (done - first) / max(time.monotonic() - started, 1e-9)
        update = replace(update, done=done, total=total_now(), values={RATE: rate})
        progress(update)
        yield chunk


def work_of(plan: ChunkPlan, *, has_baseline: bool) -> str:
    """Return a fingerprint of a plan: equal fingerprints give equal rows for equal structures."""
    names = [MANIFEST, DRAWS, DOMAIN, KNOWN]
    if plan.request.calibrated:
        names.append(CALIBRATOR)
    paths = [plan.model_folder / name for name in names]
    facts = {
        "model": [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.exists()],
        "baseline": has_baseline,
        "interval": [plan.request.probability, plan.request.interval],
        "window": plan.request.window,
        "withhold_below_p": plan.request.withhold_below_p,
        "features": "" if plan.user_features is None else plan.user_features.table.sha256,
        "widen": [plan.request.widen_below_p, plan.request.widen_factor],
        "version": version("bandgap"),
    }
    return fingerprint(facts)


_Records = tuple[StructureRecord | PackedRecord, ...]
# Records, baselines, whether labelled.
_Task = tuple[_Records, Floats | None, NDArray[np.bool_] | None]
_Result = tuple[Predictions, PredictionDetails | None]


class _Map(Protocol):
    def __call__(
        self,
        function: Callable[..., _Result],
        tasks: Iterable[tuple[Any, ...]],
        *,
        n_jobs: int,
        ahead: int,
    ) -> Generator[_Result, None, None]: ...


def _tasks_of(
    records: Iterator[StructureRecord | PackedRecord],
    *,
    size: int,
    first: int,
    baseline_eV: Floats | None,
    labelled: NDArray[np.bool_] | None,
) -> Iterator[_Task]:
    start = first
    while chunk := tuple(islice(records, size)):
        rows = slice(start, start + len(chunk))
        chunk_baseline = None if baseline_eV is None else baseline_eV[rows]
        chunk_labelled = None if labelled is None else labelled[rows]
        yield chunk, chunk_baseline, chunk_labelled
        start += len(chunk)


def _predict_here(tasks: Iterator[_Task], plan: ChunkPlan, progress: Progress) -> Iterator[Chunk]:
    """Yield the chunks one after the other; only descriptors use several processes."""
    run, calibrator = load_for(plan.model_folder, plan.request)
    for task in tasks:
        result = _predict(
            task, run, calibrator, plan, n_jobs=plan.request.n_jobs, progress=progress
        )
        yield Chunk(task[0], *result)


def _predict(
    task: _Task,
    run: Run,
    calibrator: "Calibrator | None",
    plan: ChunkPlan,
    *,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> _Result:
    packed_records, baseline, labelled = task
    records = tuple(map(unpack, packed_records))
    predictions, details = predict_records(
        run,
        records,
        baseline_eV=baseline,
        labelled=labelled,
        cache=plan.cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    return as_requested(predictions, calibrator, plan.request), details


def _predict_in_parallel(tasks: Iterator[_Task], plan: ChunkPlan) -> Generator[Chunk, None, None]:
    """Yield the chunks, predicted by forked processes if possible, else by the engine."""
    # before any process starts, so that errors are raised here
    loaded = load_for(plan.model_folder, plan.request)
    if engine_in_use().remote or not can_fork():
        yield from _predict_by(mapped, tasks, plan)
        return
    _LOADED[_key(plan)] = loaded
    try:
        # predict a few structures first: forks then inherit everything that is imported or compiled
        for task in islice(tasks, 1):
            first_rows = _sliced(task, slice(FIRST))
            yield Chunk(first_rows[0], *_predict(first_rows, *loaded, plan))
            if task[0][FIRST:]:
                tasks = chain([_sliced(task, slice(FIRST, None))], tasks)
        yield from _predict_by(mapped_by_forks, tasks, plan)
    finally:
        del _LOADED[_key(plan)]


def _sliced(task: _Task, rows: slice) -> _Task:
    records, baseline, labelled = task
    return (
        records[rows],
        None if baseline is None else baseline[rows],
        None if labelled is None else labelled[rows],
    )


def _predict_by(
    map_function: _Map, tasks: Iterator[_Task], plan: ChunkPlan
) -> Generator[Chunk, None, None]:
    """Yield the chunks in order, predicted by the processes of `map_function`."""
    # the cache is a file of this machine
    worker_plan = replace(
        plan, cache=None if engine_in_use().remote else plan.cache, user_features=None
    )
    pending: deque[_Records] = deque()

    def arguments() -> Iterator[tuple[_Task, ChunkPlan]]:
        for task in tasks:
            pending.append(task[0])
            yield task, worker_plan

    results = map_function(_predict_in_process, arguments(), n_jobs=plan.request.n_jobs, ahead=2)
    with contextlib.closing(results):
        for predictions, details in results:
            yield Chunk(pending.popleft(), predictions, details)


_Key = tuple[Path, float, IntervalKind, bool]  # identifies a loaded run
_LOADED: dict[_Key, tuple[Run, "Calibrator | None"]] = {}  # of this process and its forks


def _key(plan: ChunkPlan) -> _Key:
    request = plan.request
    return plan.model_folder, request.probability, request.interval, request.calibrated


def _predict_in_process(task: _Task, plan: ChunkPlan) -> _Result:
    """Predict a chunk in a worker process, which keeps the loaded run for its next chunk."""
    set_threads()
    key = _key(plan)
    with few_blas_threads():
        if key not in _LOADED:
            _LOADED[key] = load_for(plan.model_folder, plan.request)
        return _predict(task, *_LOADED[key], plan)
