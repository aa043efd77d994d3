"""A small reverse proxy, as a user has in front of `bandgap app`, for visitors of another machine.

It adds `X-Forwarded-For` to every request, also to the one that opens a WebSocket, and passes all
other bytes on. It needs no package: `python reverse_proxy.py http://127.0.0.1:8501`.
"""

import asyncio
import contextlib
import sys
from asyncio import StreamReader, StreamWriter
from urllib.parse import urlsplit

FORWARDED_FOR = b"X-Forwarded-For: 203.0.113.7\r\n"
END_OF_HEAD = b"\r\n\r\n"


async def serve(address: str) -> None:
    """Print the address of the proxy of a server, and serve until the process is interrupted."""
    target = urlsplit(address)

    async def forward(browser_in: StreamReader, browser_out: StreamWriter) -> None:
        with contextlib.closing(browser_out), contextlib.suppress(asyncio.IncompleteReadError):
            head = await browser_in.readuntil(END_OF_HEAD)
            server_in, server_out = await asyncio.open_connection(target.hostname, target.port)
            server_out.write(with_header(head))
            async with asyncio.TaskGroup() as group:
                group.create_task(pass_on(browser_in, server_out))
                group.create_task(pass_on(server_in, browser_out))

    server = await asyncio.start_server(forward, target.hostname, 0)
    print("http://{}:{}".format(*server.sockets[0].getsockname()), flush=True)  # noqa: T201
    await server.serve_forever()


def with_header(head: bytes) -> bytes:
    """Return the head of a request with the header, and for one request a connection.

    The heads of further requests would be passed on unread.
    """
    request, fields = head.split(b"\r\n", 1)
    fields = fields.replace(b"Connection: keep-alive", b"Connection: close")
    return b"\r\n".join([request, FORWARDED_FOR + fields])


async def pass_on(source: StreamReader, target: StreamWriter) -> None:
    """Write what one end sends to the other one, until either end closes its connection."""
    with contextlib.closing(target), contextlib.suppress(ConnectionError):
        while data := await source.read(2**16):
            target.write(data)
            await target.drain()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1]))
