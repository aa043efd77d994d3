"""Requests that a proxy may read in another way are refused."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from bandgap.jobs.connections import OPTIONS

WHOLE = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n"
PATIENCE_S = 10.0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer with an empty body."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """Serve the application in a thread and yield the port."""
    server = uvicorn.Server(uvicorn.Config(application, lifespan="off", **OPTIONS))
    sock = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join()
        sock.close()


@contextlib.contextmanager
def client(port: int, data: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        yield connection


def everything_from(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    received = b""
    while data := connection.recv(65_536):
        received += data
    return received


@pytest.mark.parametrize("first", [b"", WHOLE], ids=["first request", "second request"])
@pytest.mark.parametrize(
    "data",
    [
        UPLOAD[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        WHOLE.replace(b"\r\n", b"\n"),
        WHOLE.replace(b"\r\nHost", b"\nHost"),
        WHOLE[:-2] + b"X-Folded: a\r\n b\r\n\r\n",
    ],
    ids=["two lengths", "no CR", "one line without CR", "folded header"],
)
def test_request_that_a_proxy_may_read_in_another_way_is_refused(first: bytes, data: bytes) -> None:
    with serving() as port, client(port, first + data) as connection:
        received = everything_from(connection)
    statuses = [answer[:3] for answer in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200"] * bool(first) + [b"400"]


def test_connection_without_headers_in_time_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandgap.jobs.connections.HEAD_S", 0.2)
    with serving() as port, client(port, WHOLE[:-2]) as connection:
        assert everything_from(connection) == b""


def answers(port: int, path: str) -> bool:
    """Return whether the server answers a request within ten seconds."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    try:
        with client(port, request) as connection:
            return connection.recv(65_536).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
