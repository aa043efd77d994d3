"""One thread that predicts the queued requests in batches.

Requests that arrive while it works form the next batch and share descriptors and passes through the
draws. A prediction depends on the other structures of a batch by less than 1e-6 eV, so each request
gets the values of `bandgap predict`.
"""

import logging
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from bandgap.descriptors import Descriptors
from bandgap.foundation.errors import BandgapError, Cancelled
from bandgap.foundation.machine import few_blas_threads, set_threads
from bandgap.foundation.progress import Update
from bandgap.jobs.service.limits import Refusal
from bandgap.jobs.service.models import Row, Rows, ServedModel
from bandgap.jobs.service.requests import PredictionRequest
from bandgap.runs.prediction import describe_new
from bandgap.structures.records import StructureRecord

_LOG = logging.getLogger(__name__)
# Structures of several requests; enough to share the constant time of a call (0.25 ms).
DESCRIBED_TOGETHER = 16
# Structures of several requests; they take longer than the constant time of a pass through draws.
PREDICTED_TOGETHER = 256


@dataclass(eq=False)
class PendingRequest:
    """A queued request with its model and its future rows.

    `rows` may be cancelled until the batcher takes the request up; after that, `abandoned` means
    that the client no longer waits.
    """

    model: ServedModel
    request: PredictionRequest
    rows: "Future[list[Row]]" = field(default_factory=Future)
    abandoned: bool = False


@dataclass(frozen=True)
class Counts:
    """Numbers of requests and batches that were predicted; a batch is of one model."""

    requests: int = 0
    batches: int = 0


class Batcher:
    """The thread and its queue; call `start` before the first request and `stop` after the last."""

    def __init__(self, models: Mapping[str, ServedModel], *, max_structures: int) -> None:
        self._models = models
        self._max_structures = max_structures
        self._queue: queue.SimpleQueue[PendingRequest | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="bandgap-batcher", daemon=True)
        self.counts = Counts()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Answer the queued requests, and end."""
        self._queue.put(None)
        self._thread.join()

    def submit(self, request: PredictionRequest) -> PendingRequest:
        """Queue a request; raises Refusal (404) where its model is not served."""
        name = request.options.model or next(iter(self._models))
        if name not in self._models:
            raise Refusal(404, f"There is no such model. Served here: {', '.join(self._models)}.")
        pending = PendingRequest(self._models[name], request)
        self._queue.put(pending)
        return pending

    def _work(self) -> None:
        set_threads()
        with few_blas_threads():
            is_last = False
            while not is_last:
                batch, is_last = self._next_batch()
                batch = [
                    pending for pending in batch if pending.rows.set_running_or_notify_cancel()
                ]
                for model in dict.fromkeys(pending.model for pending in batch):
                    of_model = [pending for pending in batch if pending.model is model]
                    self.counts = Counts(
                        self.counts.requests + len(of_model), self.counts.batches + 1
                    )
                    _answer(model, of_model)

    def _next_batch(self) -> tuple[list[PendingRequest], bool]:
        """Return the queued requests, and whether they are the last.

        There is at least one request unless they are the last, and at most about `max_structures`
        structures.
        """
        batch: list[PendingRequest] = []
        size = 0
        while size < self._max_structures:
            try:
                pending = self._queue.get(block=not batch)
            except queue.Empty:
                break
            if pending is None:
                return batch, True
            batch.append(pending)
            size += len(pending.request.records)
        return batch, False


def _answer(model: ServedModel, batch: Sequence[PendingRequest]) -> None:
    """Set the rows or the error of every request of a batch; each may fail alone.

    Abandoned requests are dropped between the steps.
    """
    descriptors: dict[PendingRequest, Descriptors] = {}
    for group in _groups(batch, DESCRIBED_TOGETHER):
        if waiting := _waiting(group):
            descriptors |= _described(model, waiting)
    for group in _groups(list(descriptors), PREDICTED_TOGETHER):
        if not (waiting := _waiting(group)):
            continue
        try:
            answers = model.answer(
                [pending.request for pending in waiting],
                [descriptors[pending] for pending in waiting],
            )
            _set(waiting, answers)
        except Exception:
            _LOG.exception("a batch of requests failed; they are now answered one by one")
            _one_by_one(model, {pending: descriptors[pending] for pending in waiting})


def _groups(batch: Sequence[PendingRequest], max_structures: int) -> Iterator[list[PendingRequest]]:
    """Yield consecutive requests of at most so many structures; one with more is alone."""
    group: list[PendingRequest] = []
    size = 0
    for pending in batch:
        n = len(pending.request.records)
        if group and size + n > max_structures:
            yield group
            group = []
            size = 0
        group.append(pending)
        size += n
    if group:
        yield group


def _waiting(batch: Iterable[PendingRequest]) -> list[PendingRequest]:
    """Return the requests whose clients wait; the other ones get no rows."""
    waiting: list[PendingRequest] = []
    for pending in batch:
        if pending.abandoned:
            pending.rows.set_result([])
        else:
            waiting.append(pending)
    return waiting


def _described(
    model: ServedModel, group: Sequence[PendingRequest]
) -> dict[PendingRequest, Descriptors]:
    """Return the descriptors of every request of a group; where that fails, set the error."""

    def stop_if_abandoned(update: Update, /) -> None:
        if all(pending.abandoned for pending in group):
            raise Cancelled("no client waits for these predictions")

    records: list[StructureRecord] = [
        record for pending in group for record in pending.request.records
    ]
    try:
        described = describe_new(model.run, records, progress=stop_if_abandoned)
    except Exception as error:
        for pending in group:
            _fail(pending, error)
        return {}
    descriptors = {}
    start = 0
    for pending in group:
        stop = start + len(pending.request.records)
        descriptors[pending] = Descriptors(
            described.features[start:stop], described.problems[start:stop], 0
        )
        start = stop
    return descriptors


def _one_by_one(model: ServedModel, descriptors: Mapping[PendingRequest, Descriptors]) -> None:
    for pending, described in descriptors.items():
        try:
            if _waiting([pending]):
                _set([pending], model.answer([pending.request], [described]))
        except Exception as error:
            _fail(pending, error)


def _set(batch: Iterable[PendingRequest], answers: Sequence[Rows]) -> None:
    for pending, answer in zip(batch, answers, strict=True):
        if isinstance(answer, Exception):
            _fail(pending, answer)
        else:
            pending.rows.set_result(answer)


def _fail(pending: PendingRequest, error: Exception) -> None:
    if not isinstance(error, (BandgapError, Refusal)):
        _LOG.error("a request failed", exc_info=error)
    pending.rows.set_exception(error)
