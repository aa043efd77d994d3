"""`bandgap app`: starts the worker and the web page, starts either again when it ends, and stops both."""

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
from bandgap.jobs.other_machines import PagesRow

log = logging.getLogger(__name__)

PORTS_TO_TRY = 20
START_S = 60.0  # the first start compiles Python files and can take long on a slow disk
STOP_S = 15.0
RESTART_S = (
    1.0,
    30.0,
)  # pause before what ended is started again: doubles from the first to the second
LONG_S = 600.0  # who lived that long is started again after the first pause


def app_folder() -> Path:
    """Return the folder of the pages: inside the installed package, else the checkout's `app/`.

    Raises ConfigError when neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_app", package.parent / "app"):
        if (folder / "main.py").is_file():
            return folder
    raise ConfigError(f"The pages are not in {package} or beside it. Install bandgap again.")


def free_port(host: str, wanted: int) -> int:
    """Return `wanted`, or the next port above it that nothing listens on; any free one for 0.

    Raises ConfigError when `PORTS_TO_TRY` ports in a row are taken or the host is not one of this machine.
    """
    for port in range(wanted, min(wanted + PORTS_TO_TRY, 65536)):  # port 0: the system chooses
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
                if error.errno in (98, 48, 10048):  # address in use: Linux, macOS, Windows
                    continue
                raise ConfigError(
                    f"Cannot listen on {host}: {error.strerror}. Use 127.0.0.1, or 0.0.0.0."
                ) from error
            return int(probe.getsockname()[1])
    raise ConfigError(
        f"Ports {wanted} to {wanted + PORTS_TO_TRY - 1} are taken on {host}. Choose another with --port."
    )


def healthy(address: str) -> bool:
    """Return whether the page answers; the body counts, as Streamlit answers 200 to every unknown path as well."""
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
    open_browser: bool = False,
    token_file: Path | None = None,
    new_token: bool = False,
    host_names: Sequence[str] = (),
    behind_proxy: bool = False,
) -> int:
    """Run the worker and the page until Ctrl-C or SIGTERM; return the exit code.

    `quota_gb` is how much a workspace may take, in GB as text ("0": no limit), instead of $BANDGAP_QUOTA_GB. The last
    four say who may use the page (`access.access_rules`). Raises ConfigError when no port is free, the quota is no
    number or other machines could come in without a token, BandgapError when the page does not start or another
    machine serves the data directory.
    """
    rules = access_rules(
        host,
        port,
        token_file=token_file,
        new_token=new_token,
        host_names=host_names,
        behind_proxy=behind_proxy,
    )
    if quota_gb is None:
        quota_bytes()
    else:
        parsed_quota(quota_gb, given_as=QUOTA_OPTION)
    home = open_home()
    environment = _environment(home.folder, quota_gb)
    chosen = free_port(host, port)
    if port and chosen != port:
        _say(f"Port {port} is taken; using {chosen}.")
    rules = dataclasses.replace(rules, port=chosen)
    address = f"http://{_shown(host)}:{chosen}"
    entrance = address_with_token(address, rules.token)
    stopping, row = threading.Event(), PagesRow(home)
    with _signals_set(stopping):
        page_environment = _page_environment(environment, rules)
        page = _Kept("page", _page_command(rules), page_environment, stdout=subprocess.DEVNULL)
        worker = _Kept("worker", _kept_command("bandgap.jobs.worker"), environment)
        try:
            _wait_until_healthy(page, address, stopping)
            if not stopping.is_set():
                _say(f"bandgap is at {entrance}  (data in {home.folder}; Ctrl-C stops it)")
                if open_browser:
                    webbrowser.open(entrance)
            while not stopping.wait(0.5):
                row.beat()
                worker.keep()
                page.keep()
        finally:
            worker.stop()
            page.stop()
            row.end()
    return 0


class _Kept:
    """A process that is started again when it ends by itself, with pauses that grow until it has lived for a while."""

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
        self._pause, self._next = RESTART_S[0], 0.0
        self.process = self._started()

    def keep(self) -> None:
        if self.process.poll() is None:
            return
        now = time.monotonic()
        if not self._next:
            if now - self._since > LONG_S:
                self._pause = RESTART_S[0]
            code, pause = self.process.returncode, self._pause
            log.warning(
                "the %s ended (exit code %s); starting it again in %.0f s", self._name, code, pause
            )
            self._next, self._pause = now + pause, min(2 * pause, RESTART_S[1])
        if now >= self._next:
            _end(self.process)
            self.process, self._next = self._started(), 0.0

    def stop(self) -> None:
        _end(self.process)

    def _started(self) -> "subprocess.Popen[bytes]":
        self._since = time.monotonic()
        return subprocess.Popen(
            self._command, env=self._environment, stdin=subprocess.PIPE, stdout=self._stdout
        )


def _page_command(rules: AccessRules) -> list[str]:
    settings = dataclasses.asdict(rules)
    del settings["token"]  # other users of the machine can read a command
    return _kept_command(str(app_folder() / "server.py"), json.dumps(settings))


def _page_environment(environment: dict[str, str], rules: AccessRules) -> dict[str, str]:
    return environment if rules.token is None else {**environment, VARIABLE: rules.token}


def _kept_command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "bandgap.jobs.dashboard", program, *arguments]


def _environment(folder: Path, quota_gb: str | None) -> dict[str, str]:
    """Return what page and worker share: data directory, threads, and the quota where one was given."""
    threads, quota = (
        os.environ.get("OMP_NUM_THREADS", "1"),
        {} if quota_gb is None else {QUOTA_VARIABLE: quota_gb},
    )
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return {**inherited, "BANDGAP_HOME": str(folder), "OMP_NUM_THREADS": threads, **quota}


def _wait_until_healthy(page: _Kept, address: str, stopping: threading.Event) -> None:
    deadline = time.monotonic() + START_S
    while not stopping.is_set() and not healthy(address):
        code = page.process.poll()
        if code is not None and code >= 0:
            raise BandgapError(
                f"The page did not start (exit code {code}); its last lines above say why."
            )
        page.keep()  # one that a signal ended, as when memory runs out
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
def _signals_set(event: threading.Event) -> Iterator[None]:
    def handle(number: int, frame: FrameType | None) -> None:
        event.set()

    names = (signal.SIGINT, signal.SIGTERM)
    before = {name: signal.signal(name, handle) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _shown(host: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{shown}]" if ":" in shown else shown


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run_kept(program: str) -> None:
    """Run a module or file as page or worker, as `python` would: for the owner alone, until the starter ends."""
    os.umask(OTHERS)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    if program.endswith(".py"):
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    """Wait until the starter is gone, also by a signal that it cannot hear: the pipe from it then ends."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_S)
    os._exit(1)


if __name__ == "__main__":
    del sys.argv[0]
    _run_kept(sys.argv[0])
