"""Limits on the connections of a server (uvicorn): their number, and the time for a request.

uvicorn waits without end for the rest of a request. Here a connection is closed where its headers
or its body do not arrive in time, and a request that others may read in another way is refused, as
it may hide a second one from a proxy. At the limit on their number, the connection that has waited
longest for its client is closed for a new one.
"""

import asyncio
import dataclasses
import re
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Connections that are accepted before any of them is handled; each takes a file descriptor.
BACKLOG = 128
# File descriptors for data, modules and connections that are being closed.
SPARE_FILES = 2 * BACKLOG + 256
FILES = 8_192  # file descriptors that are requested from the operating system

# Lines that end without CR or go on in the next one; headers that both state a body's length.
_LOOSE_LINES = re.compile(rb"(?<!\r)\n|\n[ \t]")
_LENGTHS = re.compile(rb"\n(content-length|transfer-encoding):", re.IGNORECASE)

Phase = Literal["headers", "body"]
_PHASES: dict[Any, Phase] = {h11.IDLE: "headers", h11.SEND_BODY: "body"}


@dataclass(frozen=True)
class ConnectionLimits:
    """The number of connections, and times in seconds.

    Headers must arrive within `headers_s`, a body within `body_s` and without a pause of
    `body_pause_s`. A client must not stop reading the response for `response_pause_s`.
    """

    connections: int = 1_000
    headers_s: float = 10.0
    body_s: float = 600.0
    body_pause_s: float = 30.0
    response_pause_s: float = 60.0


def allow_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Raise this process's limit on open files; return the limits with a number that fits it."""
    if sys.platform == "win32":
        return limits
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    n_files = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < n_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_files, hard))
        soft = n_files
    n_connections = min(limits.connections, max(soft - SPARE_FILES, BACKLOG))
    return dataclasses.replace(limits, connections=n_connections)


def limited_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return the protocol of a server's connections, for `http=` of uvicorn.Config."""
    waiting: dict[LimitedProtocol, None] = {}
    return cast("type[asyncio.Protocol]", partial(LimitedProtocol, limits, waiting))


class LimitedProtocol(H11Protocol):
    """One connection.

    `waiting` contains the server's connections that wait for their client, the longest wait first.
    """

    def __init__(
        self, limits: ConnectionLimits, waiting: "dict[LimitedProtocol, None]", **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self._limits = limits
        self._waiting = waiting
        self._phase: Phase | None = None
        self._phase_start = 0.0
        self._last_data = 0.0
        self._arrival_timer: asyncio.TimerHandle | None = None
        self._response_timer: asyncio.TimerHandle | None = None
        self._is_websocket = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > self._limits.connections:
            if not self._waiting:
                self._refuse(503, "The server has too many connections. Try again in a minute.")
                return
            next(iter(self._waiting)).give_way()
        self._follow_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._response_timer is not None:
            self._response_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow_request()

    def handle_events(self) -> None:
        """Handle what has arrived; refuse headers that a proxy in front may read in another way."""
        if self.conn.their_state is h11.IDLE:
            head = self.conn.trailing_data[0].partition(b"\r\n\r\n")[0]
            lengths = {name.lower() for name in _LENGTHS.findall(head)}
            if len(lengths) > 1 or _LOOSE_LINES.search(head):
                self._refuse(400, "The headers of the request are ambiguous.")
                return
        super().handle_events()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_websocket = True  # another protocol has the transport from here on
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._response_timer = self.loop.call_later(
            self._limits.response_pause_s, self.transport.abort
        )

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._response_timer is not None:
            self._response_timer.cancel()
            self._response_timer = None

    def give_way(self) -> None:
        """Close this connection, to admit a new one."""
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()

    def _follow_request(self) -> None:
        """Set the phase by what the client has to send next, and start its timer."""
        is_over = self._is_websocket or self.transport.is_closing()
        phase = None if is_over else _PHASES.get(self.conn.their_state)
        now = self.loop.time()
        self._last_data = now
        if phase == self._phase:
            if phase == "body":
                self._waiting.pop(self, None)
                self._waiting[self] = None
            return
        self._stop_waiting()
        self._phase = phase
        self._phase_start = now
        if phase is not None:
            self._waiting[self] = None
            self._set_arrival_timer()

    def _stop_waiting(self) -> None:
        self._phase = None
        self._waiting.pop(self, None)
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _deadline(self) -> float:
        if self._phase == "headers":
            return self._phase_start + self._limits.headers_s
        pause_end = self._last_data + self._limits.body_pause_s
        return min(pause_end, self._phase_start + self._limits.body_s)

    def _set_arrival_timer(self) -> None:
        self._arrival_timer = self.loop.call_at(self._deadline(), self._check_arrival)

    def _check_arrival(self) -> None:
        if self.flow.read_paused:  # the server does not read: the client cannot send
            self._last_data = self.loop.time()
        if self.loop.time() < self._deadline():
            self._set_arrival_timer()
            return
        late_phase = self._phase
        self._stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
        elif late_phase == "headers" and self.conn.trailing_data[0]:
            self._refuse(408, "The request did not arrive in time.")
        else:
            self.transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer before a request is complete, and close."""
        body = sentence.encode("ascii")
        reason = {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}[status]
        lines = (
            f"HTTP/1.1 {status} {reason}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            "connection: close",
        )
        self.transport.write("\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body)
        self.transport.close()


def server_options(limits: ConnectionLimits) -> dict[str, Any]:
    """Return the arguments of uvicorn.Config for a server with these limits."""
    return {"http": limited_protocol(allow_files(limits)), "backlog": BACKLOG}
