"""Refusal of requests that a proxy in front may read in another way, and a limit on connections.

Such a request may hide a second one from the proxy. Slow uploads are the proxy's work.
"""

import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Connections that are accepted before any of them is handled; each takes a file descriptor.
BACKLOG = 128
HEAD_S = 20.0
CONNECTIONS = 700  # a process often may have 1,024 open files
# Lines that end without CR or go on in the next one; headers that both state a body's length.
_LOOSE_LINES = re.compile(rb"(?<!\r)\n|\n[ \t]")
_LENGTHS = re.compile(rb"\n(content-length|transfer-encoding):", re.IGNORECASE)
_REFUSAL = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\nThe headers are ambiguous."


class StrictProtocol(H11Protocol):
    """One connection; ambiguous headers are refused, and late ones of its first request."""

    def connection_made(self, transport: Any) -> None:
        """Take a connection, and close it unless the headers of a request come in time."""
        super().connection_made(transport)
        self.loop.call_later(HEAD_S, lambda: self.scope or transport.close())

    def handle_events(self) -> None:
        """Handle what has arrived."""
        if self.conn.their_state is h11.IDLE:
            head = self.conn.trailing_data[0].partition(b"\r\n\r\n")[0]
            lengths = {name.lower() for name in _LENGTHS.findall(head)}
            if len(lengths) > 1 or _LOOSE_LINES.search(head):
                self.transport.write(_REFUSAL)
                self.transport.close()
                return
        super().handle_events()


OPTIONS: dict[str, Any] = {  # of uvicorn.Config
    "http": StrictProtocol,
    "backlog": BACKLOG,
    "limit_concurrency": CONNECTIONS,
    "server_header": False,
    "log_level": "error",  # a warning for each malformed request would fill the disk
    "proxy_headers": False,  # the address of a request is that of the proxy
}
