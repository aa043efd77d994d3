"""Latency and throughput of `bandgap serve` with one structure per request and several clients.

The service is a separate process, reached over a socket. Clients are threads: each sends a request,
waits for the answer, and sends the next one.
"""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.datasets.demo import load_demo
from bandgap.datasets.table import elements_of
from bandgap.foundation.errors import BandgapError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures import StructureRecord
from bandgap.structures.formats.xyz import extxyz_blocks

WARM_UP = 20  # Requests that do not count.
TARGET_ATOMS = 60
STRUCTURES = 40  # Crystals of the demo nearest to TARGET_ATOMS.


@dataclass(frozen=True)
class ServiceBenchmark:
    """Numbers of simultaneous clients, and requests for each number."""

    clients: tuple[int, ...] = (1, 8, 32)
    requests: int = 3_400


def run_benchmark(
    config: ServiceBenchmark, *, model: Path, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return times (ms), requests per second, errors and memory (MB) by number of clients.

    `processor_ms` is the CPU time of the service per request.
    """
    rows = []
    done = 0
    total = len(config.clients) * config.requests
    with _served(model) as (port, process):
        records = _crystals(_elements(port))
        bodies = [
            block.encode()
            for block in extxyz_blocks(records, [{"id": record.id} for record in records])
        ]
        _send(port, bodies, WARM_UP)
        start_MB = _memory_MB(process)
        for clients in config.clients:
            progress(Update(f"{clients} clients", done, total))
            before = _processor_s(process)
            row = _measured(port, bodies, clients=clients, requests=config.requests)
            spent = (
                None if before is None else 1e3 * (_processor_s(process) or before) - 1e3 * before
            )
            cpu_ms = None if spent is None else spent / config.requests
            rows.append(row | {"processor_ms": cpu_ms, "memory_MB": _memory_MB(process)})
            done += config.requests
        progress(Update("finished", done, total))
    atoms = [record.n_atoms for record in records]
    return {
        "settings": asdict(config),
        "atoms": [min(atoms), max(atoms)],
        "start_MB": start_MB,
        "rows": rows,
    }


def _elements(port: int) -> set[str]:
    """Return the elements of the served model."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/models")
    (model,) = json.loads(connection.getresponse().read())["models"]
    connection.close()
    return set(model["elements"])


def _crystals(elements: set[str]) -> list[StructureRecord]:
    """Return crystals of the demo with these elements, nearest to TARGET_ATOMS."""
    fitting = [
        record for record in load_demo("crystals").records if elements_of(record) <= elements
    ]
    if not fitting:
        raise BandgapError(
            "No crystal of the demo consists of the model's elements: "
            f"{' '.join(sorted(elements))}."
        )
    return sorted(fitting, key=lambda record: abs(record.n_atoms - TARGET_ATOMS))[:STRUCTURES]


def _measured(port: int, bodies: list[bytes], *, clients: int, requests: int) -> dict[str, Any]:
    shares = [requests // clients + (i < requests % clients) for i in range(clients)]
    answers: list[tuple[list[float], int]] = []
    threads = [
        threading.Thread(
            target=lambda n=n, i=i: answers.append(_send(port, bodies[i:] + bodies[:i], n))
        )
        for i, n in enumerate(shares)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    times = 1e3 * np.concatenate([np.array(one) for one, _ in answers])
    return {
        "clients": clients,
        "requests": int(times.size),
        "errors": sum(errors for _, errors in answers) + requests - int(times.size),
        "p50_ms": float(np.quantile(times, 0.5)),
        "p95_ms": float(np.quantile(times, 0.95)),
        "per_s": requests / elapsed,
    }


def _send(port: int, bodies: Sequence[bytes], requests: int) -> tuple[list[float], int]:
    """Send requests in sequence; return the seconds of each and the number without a gap."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    times = []
    errors = 0
    for number in range(requests):
        started = time.perf_counter()
        connection.request("POST", "/predict?name=crystal.extxyz", bodies[number % len(bodies)])
        answer = connection.getresponse()
        text = answer.read()
        times.append(time.perf_counter() - started)
        errors += answer.status != 200 or b'"mean_eV":null' in text or b'"mean_eV"' not in text
    connection.close()
    return times, errors


@contextlib.contextmanager
def _served(model: Path) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """Start `bandgap serve` on a free port, and yield the port and its process."""
    command = [
        sys.executable,
        "-c",
        "from bandgap.cli import main; main()",
        "serve",
        "--model",
        str(model),
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r"at http://127\.0\.0\.1:(\d+) ", process.stdout.readline())
        if match is None:
            raise BandgapError("The service did not start. Its output above says why.")
        yield int(match.group(1)), process
    finally:
        process.terminate()
        process.communicate()


def _processor_s(process: "subprocess.Popen[str]") -> float | None:
    """Return the CPU seconds of a process, None if the system does not report them."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
        # User and system time.
        ticks = [int(number) for number in text.rpartition(")")[2].split()[11:13]]
        return sum(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None


def _memory_MB(process: "subprocess.Popen[str]") -> float | None:
    """Return the resident memory of a process in MB, None if the system does not report it."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    kilobytes = re.search(r"VmRSS:\s+(\d+) kB", text)
    return 1024 * int(kilobytes.group(1)) / 1e6 if kilobytes else None
