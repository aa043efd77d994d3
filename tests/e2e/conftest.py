"""A running `bandgap app` on a free port and a browser for it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext

from bandgap.serve import free_port

PATIENCE_MS = 120_000  # two cores that also train a network
FLAGS = (
    "--no-sandbox --disable-dev-shm-usage --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@dataclass(frozen=True)
class Server:
    """Address and data directory of the running application."""

    address: str
    folder: Path


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Chromium of the system, quiet on the network."""
    return {"executable_path": shutil.which("chromium"), "args": FLAGS.split()}


@pytest.fixture(autouse=True)
def _patience(context: BrowserContext) -> None:
    context.set_default_timeout(PATIENCE_MS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start the page and the worker as `bandgap app` does, stop them as Ctrl-C does."""
    folder = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-c", f"from bandgap.serve import serve; serve(port={free_port('127.0.0.1', 0)})"]
    environment = {**os.environ, "BANDGAP_HOME": str(folder)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        found = re.search(r"http://[0-9.:]+", line := process.stdout.readline())
        assert found, line
        yield Server(found.group(), folder)
        process.send_signal(signal.SIGINT)
        process.wait(60)
