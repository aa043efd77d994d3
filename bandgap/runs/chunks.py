"""Predictions of any number of structures, chunk by chunk in the order of the input: the rows of `predict_run`."""

import contextlib
import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.calibrators import FILE as CALIBRATOR
from bandgap.evaluation.calibrators import Calibrator
from bandgap.foundation.config import fingerprint
from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.forks import can_fork, mapped_by_forks
from bandgap.foundation.machine import few_blas_threads, set_threads
from bandgap.foundation.progress import RATE, Progress, Update, no_progress
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import Predictions
from bandgap.runs.prediction import draw_records, load_for, record_details, record_predictions
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import DOMAIN, DRAWS, Run
from bandgap.storage.manifests import MANIFEST
from bandgap.structures import StructureRecord
from bandgap.structures.packed import PackedRecord, unpack
from bandgap.structures.spool import Spool

FIRST = 128  # structures that are predicted before processes are forked
PROCESSES_FROM = 2_000  # structures; of fewer only what is slow to describe is spread over processes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some structures of an input, one after the other, and their predictions."""

    given: "_Given"
    predictions: Predictions
    details: PredictionDetails | None = None  # its rows begin at 0

    def __len__(self) -> int:
        return len(self.given)

    @property
    def records(self) -> tuple[StructureRecord, ...]:
        """The structures, made anew of packed ones at every call."""
        return tuple(map(unpack, self.given))


@dataclass(frozen=True)
class ChunkPlan:
    """How an input is predicted: the folder of the run, the request, and the cache of descriptors.

    The rows do not depend on the request's `chunk_size` and `n_jobs`.
    """

    model_folder: Path
    request: PredictRequest = PredictRequest()
    cache: DescriptorCache | None = None


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
    """Yield the predictions of `n` records from number `first` on; `baseline_eV` (n,) as `predict_run` takes it.

    Where `n` is not known at the beginning, as records are still being read, it is a function that returns it, or None
    as long as it is not known.
    With `labelled` (n,), which records have a known gap, details stand beside the predictions.
    With several processes, or on an engine elsewhere, whose workers must see the folder of the model, each predicts
    whole chunks with one thread, and as many chunks are held as there are processes, twice. Raises what `predict_run`
    raises, but for a baseline, which the caller checks.
    """
    known = n if callable(n) else lambda: n
    request = plan.request
    spread = request.n_jobs > 1 or engine_in_use().remote
    items: Iterable[StructureRecord | PackedRecord] = records
    if spread and isinstance(records, Spool):
        items = records.packed()
    left = islice(items, first, None)
    head = list(islice(left, PROCESSES_FROM)) if known() is None else []  # so many at least, or all
    n_left = len(head) if (total := known()) is None else total - first
    shares = spread and n_left >= PROCESSES_FROM
    size = max(1, min(request.chunk_size, -(-n_left // request.n_jobs))) if shares else request.chunk_size
    parts = _parts(chain(head, left), size=size, first=first, baseline_eV=baseline_eV, labelled=labelled)
    started, said = time.monotonic(), Update("predicting", first, total)

    def within(update: Update, /) -> None:  # a chunk that is slow to describe can be cancelled, too
        progress(replace(said, message=f"{update.phase}, {update.done:,} of the next {update.total or 0:,}"))

    progress(said)
    for chunk in _together(parts, plan) if shares else _alone(parts, plan, within):
        done = said.done + len(chunk)
        rate = (done - first) / max(time.monotonic() - started, 1e-9)
        said = replace(said, done=done, total=known(), values={RATE: rate})
        progress(said)
        yield chunk


def work_of(plan: ChunkPlan, *, has_baseline: bool) -> str:
    """Return the name of the work that a plan does: the same where the same structures get the same rows."""
    folder = plan.model_folder
    paths = [folder / name for name in (MANIFEST, DRAWS, DOMAIN, *([CALIBRATOR] if plan.request.calibrated else []))]
    facts = {
        "model": [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.exists()],
        "baseline": has_baseline,
        "interval": [plan.request.probability, plan.request.interval],
        "version": version("bandgap"),
    }
    return fingerprint(facts)


_Given = tuple[StructureRecord | PackedRecord, ...]
Part = tuple[_Given, Floats | None, NDArray[np.bool_] | None]  # of which the rows are known
Found = tuple[Predictions, PredictionDetails | None]


class _Map(Protocol):
    def __call__(
        self, function: Callable[..., Found], tasks: Iterable[tuple[Any, ...]], *, n_jobs: int, ahead: int
    ) -> Generator[Found, None, None]: ...


def _parts(
    records: Iterator[StructureRecord | PackedRecord],
    *,
    size: int,
    first: int,
    baseline_eV: Floats | None,
    labelled: NDArray[np.bool_] | None,
) -> Iterator[Part]:
    at = first
    while part := tuple(islice(records, size)):
        own = slice(at, at + len(part))
        yield part, None if baseline_eV is None else baseline_eV[own], None if labelled is None else labelled[own]
        at += len(part)


def _alone(parts: Iterator[Part], plan: ChunkPlan, progress: Progress) -> Iterator[Chunk]:
    run, calibrator = _loaded(plan)
    for part in parts:
        found = _predicted(part, run, calibrator, plan.cache, n_jobs=plan.request.n_jobs, progress=progress)
        yield Chunk(part[0], *found)


def _loaded(plan: ChunkPlan) -> tuple[Run, Calibrator | None]:
    return load_for(plan.model_folder, plan.request)


def _predicted(
    part: Part,
    run: Run,
    calibrator: Calibrator | None,
    cache: DescriptorCache | None,
    *,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Found:
    given, baseline, labelled = part
    records = tuple(map(unpack, given))
    described = featurize(records, run.descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    drawn = draw_records(run, records, described, baseline_eV=baseline)
    predictions = record_predictions(run, records, drawn)
    details = None if labelled is None else record_details(records, drawn, labelled=labelled)
    return predictions if calibrator is None else calibrator.apply(predictions), details


def _together(parts: Iterator[Part], plan: ChunkPlan) -> Generator[Chunk, None, None]:
    loaded = _loaded(plan)  # what is wrong with it is said here
    if engine_in_use().remote or not can_fork():
        yield from _elsewhere(parts, plan, mapped)
        return
    _LOADED[_key(plan)] = loaded
    try:
        for part in islice(parts, 1):  # a few first, so that forks have all that is loaded or made for it
            few = _cut(part, slice(FIRST))
            yield Chunk(few[0], *_predicted(few, *loaded, plan.cache))
            if part[0][FIRST:]:
                parts = chain([_cut(part, slice(FIRST, None))], parts)
        yield from _elsewhere(parts, plan, mapped_by_forks)
    finally:
        del _LOADED[_key(plan)]


def _cut(part: Part, rows: slice) -> Part:
    records, baseline, known = part
    return records[rows], None if baseline is None else baseline[rows], None if known is None else known[rows]


def _elsewhere(parts: Iterator[Part], plan: ChunkPlan, over: _Map) -> Generator[Chunk, None, None]:
    own = replace(plan, cache=None) if engine_in_use().remote else plan  # the cache is a file of this machine
    held: deque[_Given] = deque()

    def tasks() -> Iterator[tuple[Part, ChunkPlan]]:
        for part in parts:
            held.append(part[0])
            yield part, own

    with contextlib.closing(over(_in_process, tasks(), n_jobs=plan.request.n_jobs, ahead=2)) as found:
        for predictions, details in found:
            yield Chunk(held.popleft(), predictions, details)


_Key = tuple[Path, float, IntervalKind, bool]  # what a loaded model depends on
_LOADED: dict[_Key, tuple[Run, Calibrator | None]] = {}  # of this process and its forks


def _key(plan: ChunkPlan) -> _Key:
    request = plan.request
    return plan.model_folder, request.probability, request.interval, request.calibrated


def _in_process(part: Part, plan: ChunkPlan) -> Found:
    """Predict in a process of its own, which keeps the model for the next chunk."""
    set_threads()
    key = _key(plan)
    with few_blas_threads():
        if key not in _LOADED:
            _LOADED[key] = _loaded(plan)
        return _predicted(part, *_LOADED[key], plan.cache)
