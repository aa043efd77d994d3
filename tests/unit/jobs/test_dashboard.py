"""`bandgap app`: choice of the port, health, start, restart and stop of both processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from bandgap.foundation.errors import ConfigError
from bandgap.jobs import dashboard, lock
from bandgap.jobs.dashboard import (
    PORTS_TO_TRY,
    _SupervisedProcess,
    free_port,
    healthy,
    run_dashboard,
)
from bandgap.jobs.home import Home
from bandgap.jobs.lock import worker_status
from bandgap.jobs.store import JobStore
from tests.unit.jobs.test_worker import wait_for


def test_free_port_passes_over_a_taken_one() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert port < free_port("127.0.0.1", port) < port + PORTS_TO_TRY


def test_free_port_when_all_are_taken_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandgap.jobs.dashboard.PORTS_TO_TRY", 1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"Ports {port} to {port} are taken on 127\.0\.0\.1\. .* --port"
        ):
            free_port("127.0.0.1", port)


def test_free_port_of_a_foreign_host_says_what_to_use() -> None:
    with pytest.raises(
        ConfigError, match=r"Cannot listen on 192\.0\.2\.77: .*Use 127\.0\.0\.1, or 0\.0\.0\.0"
    ):
        free_port("192.0.2.77", 8501)


@pytest.mark.parametrize("text", ["much", "-1"])
def test_quota_that_is_no_number_is_refused_before_anything_starts(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path / "home"))
    with pytest.raises(
        ConfigError, match=rf"--quota-gb is '{text}'. Accepted: a number of GB such as 10, or 0"
    ):
        run_dashboard(port=0, quota_gb=text)
    monkeypatch.setenv("BANDGAP_QUOTA_GB", text)
    with pytest.raises(ConfigError, match=rf"BANDGAP_QUOTA_GB is '{text}'"):
        run_dashboard(port=0)
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_serve_starts_page_and_worker_and_stops_both(tmp_path: Path) -> None:
    port = free_port("127.0.0.1", 0)
    command = [
        sys.executable,
        "-c",
        "from bandgap.jobs.dashboard import run_dashboard; "
        f"run_dashboard(port={port}, quota_gb='2.5')",
    ]
    environment = {**os.environ, "BANDGAP_HOME": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(
            f"bandgap is at {address}  (data in {tmp_path};"
        )
        assert healthy(address)
        database = JobStore(Home(tmp_path)).database
        deadline = time.monotonic() + 30
        while not worker_status(database).alive and time.monotonic() < deadline:
            time.sleep(0.1)
        assert worker_status(database).alive
        if sys.platform == "linux":
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            environments = [
                Path(f"/proc/{child}/environ").read_bytes().split(b"\0") for child in children
            ]
            assert len(environments) == 2 and all(
                b"BANDGAP_QUOTA_GB=2.5" in variables for variables in environments
            )
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()
    assert not healthy(address)
    assert worker_status(database).age_s is None  # the worker gave its lock back


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_page_and_worker_end_with_a_starter_that_was_killed(tmp_path: Path) -> None:
    start = "from bandgap.jobs.dashboard import run_dashboard; run_dashboard(port=0)"
    environment = {**os.environ, "BANDGAP_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", start], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        database = JobStore(Home(tmp_path)).database
        wait_for(lambda: worker_status(database).alive)
        process.kill()
    assert len(children) == 2
    wait_for(lambda: not any(lives(int(pid)) for pid in children))
    assert worker_status(database).age_s is None  # the worker gave its lock back


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_page_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    start = "from bandgap.jobs.dashboard import run_dashboard; run_dashboard(port=0)"
    environment = {**os.environ, "BANDGAP_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", start], env=environment, stdout=subprocess.PIPE
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: len(children.read_text().split()) == 2)
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"bandgap is at ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_second_dashboard_on_a_data_directory_says_so_and_ends(tmp_path: Path) -> None:
    store = JobStore(Home(tmp_path))
    assert lock.acquire(store.database, "the first")
    start = "from bandgap.jobs.dashboard import run_dashboard; run_dashboard(port=0)"
    process = subprocess.Popen(
        [sys.executable, "-c", start],
        env={**os.environ, "BANDGAP_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            store.beat("the first", [])
            time.sleep(0.5)
        assert process.poll() == 1
    finally:
        process.kill()
        _, text = process.communicate()
    assert f"Another worker serves {tmp_path} already" in text
    assert "The worker cannot start; its last line above says why." in text
    assert lock.holds(store.database, "the first")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_process_that_ended_is_started_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    # only in this module: event loops of other threads keep the true clock
    monkeypatch.setattr(dashboard, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    supervised = _SupervisedProcess(
        "sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ)
    )
    first = supervised.process
    try:
        for lived_s, pause_s in ((1.0, 1.0), (1.0, 2.0), (1.0, 4.0), (700.0, 1.0)):
            clock[0] += lived_s
            supervised.restart_if_ended()
            assert supervised.process is first, "it lives"
            first.kill()
            first.wait()
            supervised.restart_if_ended()
            clock[0] += pause_s - 0.1
            supervised.restart_if_ended()
            assert supervised.process is first, "the pause is not over"
            clock[0] += 0.2
            supervised.restart_if_ended()
            assert supervised.process is not first and supervised.process.poll() is None
            first = supervised.process
    finally:
        supervised.stop()
