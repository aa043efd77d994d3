"""Limits on a server's connections: incomplete requests, and too many connections."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from websockets.sync.client import connect

from bandgap.jobs.connections import ConnectionLimits, server_options

resource: Any = pytest.importorskip("resource", reason="limits on files of POSIX")

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WHOLE = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n"
QUICK = ConnectionLimits(
    connections=20, headers_s=0.5, body_s=3.0, body_pause_s=0.5, response_pause_s=0.5
)
PATIENCE_S = 10.0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the size of the body; /large with 50 MB, /slow after 20 s; echo WebSockets."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
        return
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    if scope["path"] == "/slow":
        await asyncio.wait([asyncio.ensure_future(receive())], timeout=20)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"x-size", str(size).encode())]}
    )
    body = bytes(50_000_000 if scope["path"] == "/large" else 2)
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serving(limits: ConnectionLimits = QUICK) -> Iterator[int]:
    """Serve the application in a thread and yield the port."""
    config = uvicorn.Config(
        application,
        port=0,
        lifespan="off",
        log_level="critical",
        ws="websockets-sansio",
        **server_options(limits),
    )
    server = uvicorn.Server(config)
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


def seconds_until_end(connection: socket.socket) -> tuple[float, bytes]:
    """Read until the server closes the connection; return the time and what it sent."""
    start = time.monotonic()
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65_536):
            received += data
    return time.monotonic() - start, received


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
        received = seconds_until_end(connection)[1]
    statuses = [answer[:3] for answer in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200"] * bool(first) + [b"400"]


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"", b""), (HALF, b"408"), (UPLOAD + b"x", b""), (WHOLE + HALF, b"408")],
    ids=["nothing", "half of the headers", "half of a body", "half of a second request"],
)
def test_request_that_does_not_arrive_is_ended_in_time(data: bytes, status: bytes) -> None:
    with serving() as port, client(port, data) as connection:
        seconds, received = seconds_until_end(connection)
    assert 0.3 < seconds < 3.0
    assert received.split(b"HTTP/1.1 ")[-1].startswith(status)


def test_headers_that_arrive_byte_by_byte_are_ended_in_time() -> None:
    with serving() as port, client(port, HALF) as connection:
        start = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - start < PATIENCE_S:
                connection.sendall(b"x")
                time.sleep(0.05)
    assert time.monotonic() - start < 3.0


def test_body_that_arrives_steadily_is_not_ended() -> None:
    with serving() as port, client(port, UPLOAD) as connection:
        for _ in range(10):
            connection.sendall(bytes(400))
            time.sleep(0.1)  # 1 s in all, twice the longest pause
        assert b"x-size: 4000" in connection.recv(65_536)


def test_websocket_stays_open_without_a_message_and_next_to_half_sent_requests() -> None:
    with (
        serving() as port,
        contextlib.ExitStack() as stack,
        connect(f"ws://127.0.0.1:{port}") as websocket,
    ):
        time.sleep(1.5)  # three times what headers and a pause of a body may take
        for _ in range(2 * QUICK.connections):
            stack.enter_context(client(port, HALF))
        websocket.send("a message")
        assert websocket.recv(timeout=PATIENCE_S) == "a message"


def test_response_that_is_awaited_is_not_ended() -> None:
    with (
        serving() as port,
        client(port, b"GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection,
    ):
        connection.settimeout(1.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_response_that_is_not_read_is_ended_in_time() -> None:
    with (
        serving() as port,
        client(port, b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection,
    ):
        time.sleep(2.0)
        _, received = seconds_until_end(connection)
    assert len(received) < 40_000_000


def test_new_request_is_answered_where_half_sent_ones_have_taken_all_places() -> None:
    limits = ConnectionLimits(connections=20, headers_s=60.0)
    with serving(limits) as port, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(client(port, HALF)) for _ in range(60)]
        with client(port, WHOLE) as connection:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        first = connections[0]
        last = connections[-1]
        assert seconds_until_end(first)[0] < 1.0
        last.settimeout(0.3)
        with pytest.raises(TimeoutError):
            last.recv(1)


def test_new_request_is_refused_where_requests_at_work_have_taken_all_places() -> None:
    slow = b"GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serving() as port, contextlib.ExitStack() as stack:
        for _ in range(QUICK.connections):
            stack.enter_context(client(port, slow))
        time.sleep(0.5)
        with client(port, b"") as connection:
            _, received = seconds_until_end(connection)
    assert received.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert received.endswith(b"Try again in a minute.")


@pytest.mark.slow
def test_service_answers_next_to_1500_half_sent_requests_and_logs_little(tmp_path: Path) -> None:
    start = (
        "import sys\n"
        "from bandgap.jobs.service.app import build_app\n"
        "from bandgap.jobs.service.limits import ServiceLimits\n"
        "from bandgap.jobs.service.server import listening_socket, make_server\n"
        "sock = listening_socket('127.0.0.1', 0)\n"
        "print(sock.getsockname()[1], flush=True)\n"
        "make_server(build_app({}, token=None, limits=ServiceLimits())).run(sockets=[sock])\n"
    )
    with flooded([sys.executable, "-c", start], tmp_path / "log") as (port, _):
        assert answers(port, "/health")
    assert (tmp_path / "log").stat().st_size < 50_000


@contextlib.contextmanager
def flooded(command: list[str], log: Path) -> Iterator[tuple[int, str]]:
    """Start a server with at most 1,024 files and send it 1,500 incomplete requests."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip("1,500 connections need 2,000 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    limited = ["sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", *command]
    try:
        with log.open("wb") as errors, contextlib.ExitStack() as stack:
            process = subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=errors, text=True)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            line = process.stdout.readline()
            port = int(line.rstrip("\n").rsplit(":", 1)[-1].split(" ")[0].split("/")[0])
            connections = [stack.enter_context(half_request(port)) for _ in range(1_500)]
            assert len(connections) == 1_500
            yield port, line
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def half_request(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(ConnectionError):  # its place was given to another one
            connection.sendall(HALF)
        yield connection


def answers(port: int, path: str) -> bool:
    """Return whether the server answers a request within ten seconds."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    try:
        with client(port, request) as connection:
            return connection.recv(65_536).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
