"""Questions that nobody waits for any more: what is left of their work is not done, and others do not wait for it."""

from collections.abc import Sequence
from typing import Any

import pytest

from bandgap.descriptors import vectors
from bandgap.foundation.errors import Cancelled
from bandgap.jobs.service.batching import PREDICTED_TOGETHER, Asked, Batcher
from bandgap.jobs.service.models import ServedModel, load_models
from bandgap.jobs.service.requests import Choice, Question
from bandgap.structures.records import StructureRecord
from tests.unit.conftest import make_records
from tests.unit.jobs.service.conftest import Runs


@pytest.fixture
def batcher(runs: Runs) -> Batcher:
    return Batcher(load_models([runs.conformal]), max_structures=10_000)


def ask(batcher: Batcher, *batch: Sequence[StructureRecord]) -> list[Asked]:
    """Ask for every list of records before the batcher starts, so that all are of one batch."""
    return [
        batcher.ask(Question(Choice(), list(records), [None] * len(records))) for records in batch
    ]


def leave_while_describing(monkeypatch: pytest.MonkeyPatch, leaving: Sequence[Asked]) -> list[Any]:
    """Abandon questions when the fifth structure is described; return the list of what is described."""
    compute, seen = vectors._compute, []

    def counted(atoms: Any, config: Any) -> Any:
        seen.append(atoms)
        if len(seen) == 5:
            for one in leaving:
                one.abandoned = True
        return compute(atoms, config)

    monkeypatch.setattr(vectors, "_compute", counted)
    return seen


def test_large_question_that_is_left_is_not_described_to_its_end_while_a_small_one_waits(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, few = make_records(300, seed=41, prefix="many"), make_records(2, seed=42, prefix="few")
    large, small = ask(batcher, many, few)
    seen = leave_while_describing(monkeypatch, [large])
    batcher.start()
    assert [row["id"] for row in small.rows.result(timeout=60)] == [record.id for record in few]
    batcher.stop()
    with pytest.raises(Cancelled):
        large.rows.result(timeout=1)
    assert len(seen) <= vectors.CHUNK_STRUCTURES + len(
        few
    )  # the chunk that was begun, and those that are waited for


def test_small_questions_that_are_left_are_dropped_one_by_one(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(batcher, *([record] for record in make_records(40, seed=43, prefix="one")))
    left = asked[20:30]
    seen = leave_while_describing(monkeypatch, left)
    batcher.start()
    answers = [one.rows.result(timeout=60) for one in asked]
    batcher.stop()
    assert [len(rows) for rows in answers] == [1] * 20 + [0] * 10 + [1] * 10
    assert len(seen) == 30


def test_question_that_is_left_while_others_are_predicted_is_not_predicted(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first fills a pass of its own; during it the second is left, and only the third goes into the next."""
    first, second, third = ask(
        batcher,
        make_records(PREDICTED_TOGETHER, seed=44, prefix="first"),
        make_records(20, seed=45, prefix="second"),
        make_records(1, seed=46, prefix="third"),
    )
    answer, passes = ServedModel.answer, []

    def noted(model: ServedModel, questions: Sequence[Question], described: Any) -> Any:
        passes.append(list(questions))
        second.abandoned = True
        return answer(model, questions, described)

    monkeypatch.setattr(ServedModel, "answer", noted)
    batcher.start()
    assert [len(one.rows.result(timeout=60)) for one in (first, second, third)] == [
        PREDICTED_TOGETHER,
        0,
        1,
    ]
    batcher.stop()
    assert passes == [[first.question], [third.question]]
