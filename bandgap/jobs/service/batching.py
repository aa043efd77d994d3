"""One thread that computes: what arrives while it works is taken together, described together, and predicted together.

Neither a descriptor nor a prediction depends on what it is made beside (`bandgap.posterior.together`): each request is
answered as `bandgap predict` answers the same structures.
"""

import logging
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from bandgap.descriptors import Descriptors, featurize
from bandgap.foundation.errors import BandgapError, Cancelled
from bandgap.foundation.machine import few_blas_threads, set_threads
from bandgap.foundation.progress import Update
from bandgap.jobs.service.limits import Refusal
from bandgap.jobs.service.models import Row, Rows, ServedModel
from bandgap.jobs.service.requests import Question
from bandgap.structures.records import StructureRecord

_LOG = logging.getLogger(__name__)
DESCRIBED_TOGETHER = (
    16  # structures of several questions: enough to share what every call takes (0.25 ms)
)
PREDICTED_TOGETHER = 256  # so many take longer than what a pass through the draws takes for itself


@dataclass(eq=False)
class Asked:
    """A question on its way: the model it goes to, where the rows will be, and whether anybody still waits for them.

    `rows` may be cancelled until the batcher takes the question up; after that, `abandoned` says so.
    """

    model: ServedModel
    question: Question
    rows: "Future[list[Row]]" = field(default_factory=Future)
    abandoned: bool = False


@dataclass(frozen=True)
class Counts:
    """How many requests were predicted since the start, and in how many batches: those of one model at a time."""

    requests: int = 0
    batches: int = 0


class Batcher:
    """The thread and its queue; `start` before the first question, `stop` after the last."""

    def __init__(self, models: Mapping[str, ServedModel], *, max_structures: int) -> None:
        self._models, self._most = models, max_structures
        self._queue: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="bandgap-batcher", daemon=True)
        self.counts = Counts()

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what was asked, and end."""
        self._queue.put(None)
        self._thread.join()

    def ask(self, question: Question) -> Asked:
        """Queue a question; raises Refusal (404) where its model is not served here."""
        name = question.choice.model or next(iter(self._models))
        if name not in self._models:
            raise Refusal(404, f"There is no such model. Served here: {', '.join(self._models)}.")
        asked = Asked(self._models[name], question)
        self._queue.put(asked)
        return asked

    def _work(self) -> None:
        set_threads()
        with few_blas_threads():
            going = True
            while going:
                batch, going = self._next_batch()
                wanted = [asked for asked in batch if asked.rows.set_running_or_notify_cancel()]
                for model in dict.fromkeys(asked.model for asked in wanted):
                    together = [asked for asked in wanted if asked.model is model]
                    self.counts = Counts(
                        self.counts.requests + len(together), self.counts.batches + 1
                    )
                    _answer(model, together)

    def _next_batch(self) -> tuple[list[Asked], bool]:
        """Return what waits, at least one question and at most about `max_structures` structures; whether to go on."""
        batch: list[Asked] = []
        size = 0
        while size < self._most:
            try:
                asked = self._queue.get(block=not batch)
            except queue.Empty:
                break
            if asked is None:
                return batch, False
            batch.append(asked)
            size += len(asked.question.records)
        return batch, True


def _answer(model: ServedModel, batch: Sequence[Asked]) -> None:
    """Set the rows, or what went wrong, of every question of a batch; one that fails costs no other.

    Between pieces of the work, questions for which nobody waits any more are dropped.
    """
    parts: dict[Asked, Descriptors] = {}
    for piece in _pieces(batch, DESCRIBED_TOGETHER):
        if waiting := _waiting(piece):
            parts |= _described(model, waiting)
    for piece in _pieces(list(parts), PREDICTED_TOGETHER):
        if not (waiting := _waiting(piece)):
            continue
        try:
            _set(
                waiting,
                model.answer([one.question for one in waiting], [parts[one] for one in waiting]),
            )
        except Exception:
            _LOG.exception("questions were not answered together, and are asked one by one")
            _one_by_one(model, {one: parts[one] for one in waiting})


def _pieces(batch: Sequence[Asked], most: int) -> Iterator[list[Asked]]:
    """Yield neighbouring questions of together at most so many structures; one with more is alone."""
    piece: list[Asked] = []
    size = 0
    for asked in batch:
        own = len(asked.question.records)
        if piece and size + own > most:
            yield piece
            piece, size = [], 0
        piece.append(asked)
        size += own
    if piece:
        yield piece


def _waiting(batch: Iterable[Asked]) -> list[Asked]:
    """Return the questions that somebody waits for; the others are answered with no rows."""
    waiting: list[Asked] = []
    for asked in batch:
        if asked.abandoned:
            asked.rows.set_result([])
        else:
            waiting.append(asked)
    return waiting


def _described(model: ServedModel, piece: Sequence[Asked]) -> dict[Asked, Descriptors]:
    """Return the descriptors of every question of a piece; none where describing failed, as is said to each."""

    def note(update: Update, /) -> None:
        if all(asked.abandoned for asked in piece):
            raise Cancelled("nobody waits for these predictions")

    records: list[StructureRecord] = [
        record for asked in piece for record in asked.question.records
    ]
    try:
        described = featurize(records, model.run.descriptor, progress=note)
    except Exception as error:
        for asked in piece:
            _fail(asked, error)
        return {}
    parts, start = {}, 0
    for asked in piece:
        stop = start + len(asked.question.records)
        parts[asked] = Descriptors(
            described.features[start:stop], described.problems[start:stop], 0
        )
        start = stop
    return parts


def _one_by_one(model: ServedModel, parts: Mapping[Asked, Descriptors]) -> None:
    for asked, part in parts.items():
        try:
            for one in _waiting([asked]):
                _set([one], model.answer([one.question], [part]))
        except Exception as error:
            _fail(asked, error)


def _set(batch: Iterable[Asked], answers: Sequence[Rows]) -> None:
    for asked, answer in zip(batch, answers, strict=True):
        if isinstance(answer, Exception):
            _fail(asked, answer)
        else:
            asked.rows.set_result(answer)


def _fail(asked: Asked, error: Exception) -> None:
    if not isinstance(error, (BandgapError, Refusal)):
        _LOG.error("a question was not answered", exc_info=error)
    asked.rows.set_exception(error)
