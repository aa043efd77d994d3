"""`bandgap app`: start the worker and the page server, restart either when it ends, stop both."""

import contextlib
import dataclasses
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from bandgap.foundation.errors import BandgapError, ConfigError
from bandgap.jobs.access import VARIABLE, AccessRules, access_rules, address_with_token
from bandgap.jobs.disk import QUOTA_OPTION, QUOTA_VARIABLE, parsed_quota, quota_bytes
from bandgap.jobs.home import OTHERS, open_home
from bandgap.jobs.lock import REFUSED

log = logging.getLogger(__name__)

PORTS_TO_TRY = 20
START_S = 60.0  # the first start compiles Python files and can take long on a slow disk
STOP_S = 15.0
RESTART_S = (1.0, 30.0)  # first and longest pause before a restart; the pause doubles every time
LONG_S = 600.0  # a process that ran this long is restarted after the first pause
ADDRESS_IN_USE = (98, 48, 10048)  # error number on Linux, macOS, Windows


def app_folder() -> Path:
    """Return the folder of the dashboard: inside the installed package, else the checkout's `app/`.

    Raises ConfigError when neither exists.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_app", package.parent / "app"):
        if (folder / "main.py").is_file():
            return folder
    raise ConfigError(f"The dashboard is not in {package} or next to it. Install bandgap again.")


def free_port(host: str, first: int) -> int:
    """Return `first`, or the next port above it that nothing listens on; any free port for 0.

    Raises ConfigError when `PORTS_TO_TRY` ports in a row are taken or `host` is no address of this
    machine.
    """
    for port in range(first, min(first + PORTS_TO_TRY, 65536)):  # port 0: the system chooses
        with socket.socket(_family(host)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except PermissionError:
                raise ConfigError(
                    f"Port {port} needs the rights of an administrator. Choose one from 1024."
                ) from None
            except OverflowError:
                break
            except OSError as error:
                if error.errno in ADDRESS_IN_USE:
                    continue
                raise ConfigError(
                    f"Cannot listen on {host}: {error.strerror}. Use 127.0.0.1, or 0.0.0.0."
                ) from error
            return int(probe.getsockname()[1])
    last = first + PORTS_TO_TRY - 1
    raise ConfigError(f"Ports {first} to {last} are taken on {host}. Choose another with --port.")


def healthy(address: str) -> bool:
    """Return whether the page server answers.

    The body is checked, as Streamlit answers 200 to unknown paths too.
    """
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2.0) as answer:
            return bool(answer.read() == b"ok")
    except OSError:
        return False


def run_dashboard(
    host: str = "127.0.0.1",
    port: int = 8501,
    *,
    quota_gb: str | None = None,
    workers: int = 1,
    open_browser: bool = False,
    token_file: Path | None = None,
    new_token: bool = False,
    host_names: Sequence[str] = (),
    trusted_proxy: str = "",
    user_header: str = "",
    login: Path | None = None,
) -> int:
    """Run the worker and the page server until Ctrl-C or SIGTERM; return the exit code.

    Parameters
    ----------
    host, port
        Address to listen on. Where the port is taken, the next free one is used; 0 is any free one.
    quota_gb
        Disk space of a person in GB, as text; "0" is no limit. Instead of $BANDGAP_QUOTA_GB.
    workers
        Number of trainings side by side, and of short jobs beside them.
    open_browser
        Whether to open the dashboard in the browser.
    token_file, new_token, host_names, trusted_proxy, user_header, login
        Who may use the dashboard: see `access.access_rules`.

    Raises
    ------
    ConfigError
        When no port is free, the quota is no number, or the access rules make no sense.
    BandgapError
        When the page server does not start, or another worker serves the data directory.
    """
    rules = access_rules(
        host,
        port,
        token_file=token_file,
        new_token=new_token,
        host_names=host_names,
        trusted_proxy=trusted_proxy,
        user_header=user_header,
        login=login,
    )
    if quota_gb is None:
        quota_bytes()
    else:
        parsed_quota(quota_gb, given_as=QUOTA_OPTION)
    home = open_home()
    environment = _environment(home.folder, quota_gb)
    free = free_port(host, port)
    if port and free != port:
        _print(f"Port {port} is taken; using {free}.")
    rules = dataclasses.replace(rules, port=free)
    address = f"http://{_browser_host(host)}:{free}"
    token_address = address_with_token(address, rules.token)
    stopping = threading.Event()
    with _set_on_signals(stopping):
        page_environment = _page_environment(environment, rules)
        page = _SupervisedProcess(
            "page", _page_command(rules), page_environment, stdout=subprocess.DEVNULL
        )
        worker = _SupervisedProcess(
            "worker", _supervised_command("bandgap.jobs.worker", str(workers)), environment
        )
        try:
            _wait_until_healthy(page, worker, address, stopping)
            if not stopping.is_set():
                _print(f"bandgap is at {token_address}  (data in {home.folder}; Ctrl-C stops it)")
                if open_browser:
                    webbrowser.open(token_address)
            while not stopping.wait(0.5):
                worker.restart_if_ended()
                page.restart_if_ended()
        finally:
            worker.stop()
            page.stop()
    return 0


class _SupervisedProcess:
    """A process that is restarted when it ends by itself.

    The pause before a restart doubles every time, until the process has run for `LONG_S`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        *,
        stdout: int | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._stdout = stdout
        self._pause_s = RESTART_S[0]
        self._restart_at: float | None = None  # monotonic time
        self.process = self._start()

    def restart_if_ended(self) -> None:
        """Start the process again after a pause; raises BandgapError where it was refused."""
        code = self.process.poll()
        if code is None:
            return
        if code == REFUSED:
            raise BandgapError(f"The {self._name} cannot start; its last line above says why.")
        now = time.monotonic()
        if self._restart_at is None:
            if now - self._started_at > LONG_S:
                self._pause_s = RESTART_S[0]
            log.warning(
                "the %s ended (exit code %s); restarting it in %.0f s",
                self._name,
                code,
                self._pause_s,
            )
            self._restart_at = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, RESTART_S[1])
        if now >= self._restart_at:
            _end(self.process)
            self.process = self._start()
            self._restart_at = None

    def stop(self) -> None:
        _end(self.process)

    def _start(self) -> "subprocess.Popen[bytes]":
        self._started_at = time.monotonic()
        return subprocess.Popen(
            self._command, env=self._environment, stdin=subprocess.PIPE, stdout=self._stdout
        )


def _page_command(rules: AccessRules) -> list[str]:
    settings = dataclasses.asdict(rules)
    del settings["token"]  # other users of the machine can read a command
    return _supervised_command(str(app_folder() / "server.py"), json.dumps(settings))


def _page_environment(environment: dict[str, str], rules: AccessRules) -> dict[str, str]:
    return environment if rules.token is None else {**environment, VARIABLE: rules.token}


def _supervised_command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "bandgap.jobs.dashboard", program, *arguments]


def _environment(folder: Path, quota_gb: str | None) -> dict[str, str]:
    """Return the environment of page server and worker, without the token."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment["BANDGAP_HOME"] = str(folder)
    if quota_gb is not None:
        environment[QUOTA_VARIABLE] = quota_gb
    return environment


def _wait_until_healthy(
    page: _SupervisedProcess, worker: _SupervisedProcess, address: str, stopping: threading.Event
) -> None:
    deadline = time.monotonic() + START_S
    while not stopping.is_set() and not healthy(address):
        code = page.process.poll()
        if code is not None and code >= 0:
            raise BandgapError(
                f"The page did not start (exit code {code}); its last lines above say why."
            )
        page.restart_if_ended()  # a signal ended it, as when memory runs out
        worker.restart_if_ended()
        if time.monotonic() > deadline:
            raise BandgapError(
                f"The page did not answer at {address} within {START_S:.0f} s. Start it again."
            )
        stopping.wait(0.2)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


@contextlib.contextmanager
def _set_on_signals(event: threading.Event) -> Iterator[None]:
    """Set the event on SIGINT and SIGTERM in this context."""

    def handle(number: int, frame: FrameType | None) -> None:
        event.set()

    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _browser_host(host: str) -> str:
    """Return the host of the address that a browser on this machine opens."""
    name = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{name}]" if ":" in name else name


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run_supervised(program: str) -> None:
    """Run a module or a file as page server or worker, as `python` would.

    Its files belong to the owner alone. It ends when the process that started it ends.
    """
    os.umask(OTHERS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if program.endswith(".py"):
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, also by SIGKILL.

    The pipe to standard input then closes.
    """
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_S)
    os._exit(1)


if __name__ == "__main__":
    del sys.argv[0]
    _run_supervised(sys.argv[0])
