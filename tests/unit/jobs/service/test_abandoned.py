"""Abandoned requests: the rest of their work is left out, and other requests do not wait."""

import socket
import time
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from bandgap.descriptors import vectors
from bandgap.foundation.errors import Cancelled
from bandgap.jobs.service import requests
from bandgap.jobs.service.batching import PREDICTED_TOGETHER, Batcher, PendingRequest
from bandgap.jobs.service.models import ServedModel, load_models
from bandgap.jobs.service.requests import PredictionRequest, RequestOptions
from bandgap.structures.records import StructureRecord
from tests.unit.conftest import make_records
from tests.unit.jobs.service.conftest import Runs, serving


@pytest.fixture
def batcher(runs: Runs) -> Batcher:
    return Batcher(load_models([runs.conformal]), max_structures=10_000)


def ask(batcher: Batcher, *batch: Sequence[StructureRecord]) -> list[PendingRequest]:
    """Ask for every list of records before the batcher starts, so that all are of one batch."""
    return [
        batcher.submit(PredictionRequest(RequestOptions(), list(records), [None] * len(records)))
        for records in batch
    ]


def leave_while_describing(
    monkeypatch: pytest.MonkeyPatch, leaving: Sequence[PendingRequest]
) -> list[Any]:
    """Abandon requests at the fifth structure; return the list of described structures."""
    compute = vectors._compute
    described = []

    def counted(atoms: Any, config: Any) -> Any:
        described.append(atoms)
        if len(described) == 5:
            for one in leaving:
                one.abandoned = True
        return compute(atoms, config)

    monkeypatch.setattr(vectors, "_compute", counted)
    return described


def test_large_abandoned_request_is_not_described_completely_while_a_small_one_waits(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = make_records(300, seed=41, prefix="many")
    two_records = make_records(2, seed=42, prefix="few")
    large, small = ask(batcher, many, two_records)
    described = leave_while_describing(monkeypatch, [large])
    batcher.start()
    assert [row["id"] for row in small.rows.result(timeout=60)] == [
        record.id for record in two_records
    ]
    batcher.stop()
    with pytest.raises(Cancelled):
        large.rows.result(timeout=1)
    assert len(described) <= vectors.CHUNK_STRUCTURES + len(
        two_records
    )  # the chunk that was begun, and those that are waited for


def test_small_abandoned_requests_are_dropped_one_by_one(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = ask(batcher, *([record] for record in make_records(40, seed=43, prefix="one")))
    abandoned = pending[20:30]
    described = leave_while_describing(monkeypatch, abandoned)
    batcher.start()
    answers = [one.rows.result(timeout=60) for one in pending]
    batcher.stop()
    assert [len(rows) for rows in answers] == [1] * 20 + [0] * 10 + [1] * 10
    assert len(described) == 30


def test_request_that_is_abandoned_while_others_are_predicted_is_not_predicted(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first fills a pass, in which the second is abandoned; the next pass has the third."""
    first, second, third = ask(
        batcher,
        make_records(PREDICTED_TOGETHER, seed=44, prefix="first"),
        make_records(20, seed=45, prefix="second"),
        make_records(1, seed=46, prefix="third"),
    )
    answer = ServedModel.answer
    passes = []

    def noted(model: ServedModel, requests: Sequence[PredictionRequest], described: Any) -> Any:
        passes.append(list(requests))
        second.abandoned = True
        return answer(model, requests, described)

    monkeypatch.setattr(ServedModel, "answer", noted)
    batcher.start()
    assert [len(one.rows.result(timeout=60)) for one in (first, second, third)] == [
        PREDICTED_TOGETHER,
        0,
        1,
    ]
    batcher.stop()
    assert passes == [[first.request], [third.request]]


def test_requests_whose_clients_have_gone_are_not_read(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 clients leave, each with ten structures of a tenth of a second; the next one is served."""
    stream = requests.read_upload
    read = []

    def slowly(*arguments: Any, **options: Any) -> Any:
        for record in stream(*arguments, **options):
            time.sleep(0.1)
            read.append(record)
            yield record

    frames = b"3\n\nO 0 0 0.1\nH 0.76 0 -0.5\nH -0.76 0 -0.5\n"
    body = frames * 10
    head = f"POST /predict?name=a.xyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    monkeypatch.setattr(requests, "read_upload", slowly)
    with serving([runs.conformal]) as address:
        host, port = address.removeprefix("http://").split(":")
        httpx.post(f"{address}/predict?name=a.xyz", content=frames)  # starts the readers
        for _ in range(20):
            with socket.create_connection((host, int(port))) as sock:
                sock.sendall(f"{head}\r\n\r\n".encode() + body)
        answer = httpx.post(f"{address}/predict?name=a.xyz", content=frames, timeout=60)
        assert answer.status_code == 200
        assert len(read) < 100  # of 202
        assert httpx.get(f"{address}/health").json()["requests"] == 2
