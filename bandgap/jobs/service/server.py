"""`bandgap serve`: load the models, listen on a socket, and answer until Ctrl-C or SIGTERM."""

import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import set_threads
from bandgap.jobs.connections import BACKLOG, OPTIONS
from bandgap.jobs.service.app import build_app
from bandgap.jobs.service.limits import ServiceLimits
from bandgap.jobs.service.models import load_models
from bandgap.jobs.service.tokens import VARIABLE, check_host, check_proxy, is_loopback, token_of
from bandgap.posterior.layer_cache import reserve_layer_cache

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# Memory for the layers of networks' draws. Those that do not fit are computed for every request.
LAYER_BYTES = 2_000_000_000
GRACE_S = 10  # for requests that are being answered when the service is stopped


def run_service(
    folders: Sequence[Path],
    *,
    host: str,
    port: int,
    token_file: Path | None,
    user_header: str = "",
    trusted_proxy: str = "",
    limits: ServiceLimits,
    echo: Callable[[str], None],
) -> int:
    """Serve runs until Ctrl-C or SIGTERM; return the exit code. Port 0 is any free one.

    `echo` prints a line for the user. Raises ConfigError where the address cannot be used, or is
    open to other machines without a token, and ArtifactError where a run is damaged.
    """
    token = token_of(token_file)
    check_host(host, token, user_header)
    check_proxy(user_header, trusted_proxy)
    set_threads()
    sock = listening_socket(host, port)
    models = load_models(folders)
    reserve_layer_cache(LAYER_BYTES)
    hosts = LOOPBACK if is_loopback(host) else ("*",)
    app = build_app(
        models,
        token=token,
        user_header=user_header,
        trusted_proxy=trusted_proxy,
        limits=limits,
        hosts=hosts,
    )
    url_host = f"[{host}]" if ":" in host else host
    url = f"http://{url_host}:{sock.getsockname()[1]}"
    echo(f"bandgap serves {', '.join(models)} at {url}  (GET /docs; Ctrl-C stops it)")
    if not token and not user_header:
        echo(f"No token: only this machine is let in. --token-file or {VARIABLE} sets one.")
    # uvicorn handles these signals, and after its end raises them once more
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    make_server(app).run(sockets=[sock])
    return 0


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return the server of the application, without websockets and without a header of its name."""
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=GRACE_S,
        **OPTIONS,
    )
    return uvicorn.Server(config)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address; raises ConfigError where that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's delay, 40 ms for every answer, only where the protocol is given
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        raise ConfigError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another --port or --host."
        ) from error
    return sock


def _ignore(number: int, frame: FrameType | None) -> None:
    pass
