"""The running dashboard: outgoing connections, access, and memory."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from bandgap.jobs.access import AccessRules
from bandgap.jobs.dashboard import app_folder, free_port
from tests.unit.jobs.test_connections import answers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

TOKEN = "token-of-the-test-0123"
START = "from bandgap.jobs.dashboard import run_dashboard; run_dashboard({host!r}, port=0)"
WATER = b"3\nProperties=species:S:1:pos:R:3\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"
UPLOAD_BYTES = 3_000_000

# Python runs this file at the start of every process that has its folder on PYTHONPATH.
WATCH = """
import os, sys

def note(event, arguments):
    if event == "socket.getaddrinfo":
        target = arguments[0]
    elif event == "socket.gethostbyname":
        target = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        target = arguments[1]
        target = target[0] if isinstance(target, tuple) else None  # a path is a local socket
    else:
        return
    target = target.decode() if isinstance(target, bytes) else target
    if target not in (None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"):
        with open(os.environ["WATCH_FILE"], "a") as file:
            file.write(f"{event} {target}\\n")

sys.addaudithook(note)
"""


@contextlib.contextmanager
def dashboard(folder: Path, host: str, **environment: str) -> Iterator[str]:
    """Run `bandgap app` and yield its loopback address."""
    variables = {**os.environ, "BANDGAP_HOME": str(folder / "home"), **environment}
    command = [sys.executable, "-c", START.format(host=host)]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            match = re.match(r"bandgap is at (http://127\.0\.0\.1:\d+)", process.stdout.readline())
            assert match
            yield match.group(1)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def stream_of(address: str) -> str:
    return f"{address.replace('http://', 'ws://')}/_stcore/stream"


def test_server_opens_no_outgoing_connections(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    watched = tmp_path / "watched"
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {"PYTHONPATH": paths, "WATCH_FILE": str(watched), "BANDGAP_APP_TOKEN": TOKEN}
    with dashboard(tmp_path, "0.0.0.0", **variables) as address:
        rules = AccessRules("0.0.0.0", int(address.rsplit(":", 1)[1]), token=TOKEN)
        cookie = {"Cookie": f"{rules.cookie}={rules.cookie_value}"}
        start = time.monotonic()
        for name in ("attacker.example", "192.0.2.1"):
            with pytest.raises(InvalidStatus, match="403"):
                connect(
                    stream_of(address), origin=Origin(f"https://{name}"), additional_headers=cookie
                )
        assert time.monotonic() - start < 2.0
        with connect(stream_of(address), origin=Origin(address), additional_headers=cookie):
            pass
    assert not watched.exists(), watched.read_text()


def test_audit_hook_records_an_outgoing_connection(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path), "WATCH_FILE": str(tmp_path / "watched")}
    code = (
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"
    )
    subprocess.run([sys.executable, "-c", code], env=variables, check=False, capture_output=True)
    assert (tmp_path / "watched").read_text() == "socket.connect 192.0.2.1\n"


def test_token_opens_the_pages_and_is_in_no_command(tmp_path: Path) -> None:
    with (
        dashboard(tmp_path, "127.0.0.1", BANDGAP_APP_TOKEN=TOKEN) as address,
        httpx.Client(base_url=address) as client,
    ):
        for path in ("/", "/train", "/_stcore/host-config", "/_stcore/metrics", "/media/x"):
            assert client.get(path).status_code == 401
        with pytest.raises(InvalidStatus, match="403"):
            connect(stream_of(address))
        assert client.get("/_stcore/health").text == "ok"
        page = client.get("/", params={"token": TOKEN}, follow_redirects=True)
        assert (
            page.status_code == 200
            and "<title>Streamlit</title>" in page.text
            and str(page.url) == f"{address}/"
        )
        assert page.headers["content-security-policy"] == "frame-ancestors 'self'"
        assert "server" not in page.headers
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        with connect(stream_of(address), additional_headers={"Cookie": cookie}) as connection:
            connection.ping().wait(5)
        assert client.get("/", headers={"Host": "attacker.example"}).status_code == 400
        if sys.platform == "linux":
            commands = [
                path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
            ]
            assert not any(TOKEN.encode() in command for command in commands)


def test_settings_of_the_pages_are_read(tmp_path: Path) -> None:
    code = (
        "import json; from app import server; from streamlit import config; from "
        "bandgap.jobs.access import AccessRules; server.server_of(AccessRules('127.0.0.1', 8501)); "
        "names = ['runner.postScriptGC', 'server.maxUploadSize', 'client.showErrorDetails', "
        "'browser.gatherUsageStats', 'server.enableXsrfProtection', "
        "'server.enableWebsocketCompression', 'server.port', 'logger.level', "
        "'server.baseUrlPath']; "
        "print(json.dumps([config.get_option(name) for name in names]))"
    )
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text('[server]\nbaseUrlPath = "lab"\n')
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    expected = [False, 20, "none", False, True, False, 8501, "warning", ""]
    assert json.loads(process.stdout) == expected


@pytest.fixture(scope="module")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The process of the pages; it forgets ended sessions after 1 s, frees memory every 0.5 s.

    It also answers with its figures, in which the tests see how much memory uploads take.
    """
    port = free_port("127.0.0.1", 0)
    code = (
        "import sys; from app import server; from bandgap.jobs import access; "
        "server.CLEANING_S = 0.5; access.HIDDEN_PATH = '/none'; "
        "server.OPTIONS['server.disconnectedSessionTTL'] = 1; "
        f"sys.argv = ['server.py', {settings_of_port(port)!r}]; server.main()"
    )
    folder = tmp_path_factory.mktemp("pages")
    with page_process([sys.executable, "-c", code], port, folder) as address:
        yield address


def settings_of_port(port: int, **rules: str) -> str:
    """Return the argument of `app/server.py` for this port of the loopback address."""
    return json.dumps({"host": "127.0.0.1", "port": port, "host_names": [], **rules})


@contextlib.contextmanager
def page_process(command: list[str], port: int, folder: Path) -> Iterator[str]:
    """Run a command that serves the pages and yield its address; `folder` is the data directory."""
    variables = {**os.environ, "BANDGAP_HOME": str(folder)}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, cwd=folder) as process:
        try:
            deadline = time.monotonic() + 60
            while not answers(port, "/_stcore/health"):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def test_pages_of_an_installed_package_ignore_another_package_app(tmp_path: Path) -> None:
    """The wheel has the pages in `bandgap/_app`; the working directory has a package `app`."""
    installed = tmp_path / "bandgap" / "_app"
    shutil.copytree(app_folder(), installed, ignore=shutil.ignore_patterns("__pycache__"))
    home = tmp_path / "home"
    (home / "app").mkdir(parents=True)
    (home / "app" / "__init__.py").write_text("raise RuntimeError('another package')")
    port = free_port("127.0.0.1", 0)
    program = [str(installed / "server.py"), settings_of_port(port)]
    command = [sys.executable, "-m", "bandgap.jobs.dashboard", *program]
    with page_process(command, port, home) as address, visiting(address) as visitor:
        page = "\n".join(str(message) for message in visitor.run(question_of("")))
    assert "another package" not in page
    assert "Band gaps of crystals" in page


class Visitor:
    """A session of the dashboard and an HTTP client with its cookies."""

    def __init__(self, address: str, connection: ClientConnection, client: httpx.Client) -> None:
        self.address = address
        self._connection = connection
        self._client = client
        self.session_id = ""

    def run(self, question: BackMsg) -> list[ForwardMsg]:
        """Send a message and return what is sent until the end of the script or the download."""
        self._connection.send(question.SerializeToString())
        received = []
        while True:
            message = ForwardMsg.FromString(self._connection.recv(timeout=60))
            received.append(message)
            if message.WhichOneof("type") == "new_session":
                self.session_id = message.new_session.initialize.session_id
            ended = message.WhichOneof("type") in ("script_finished", "backend_operation_response")
            if ended and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                return received

    def upload(self, name: str, data: bytes) -> str:
        """Upload a file as the browser does and return its id."""
        file_id = str(uuid.uuid4())
        token = self._client.cookies["_streamlit_xsrf"]
        answer = self._client.put(
            f"/_stcore/upload_file/{self.session_id}/{file_id}",
            files={"file": (name, data)},
            headers={"X-Xsrftoken": token, "Origin": self.address},
        )
        assert answer.status_code == 204, answer.text
        return file_id


@contextlib.contextmanager
def visiting(
    address: str, *, client: httpx.Client | None = None, session: str = "", **options: Any
) -> Iterator[Visitor]:
    """Open a session with the cookies of a client, or ask for the one of this id."""
    with contextlib.ExitStack() as stack:
        client = client or stack.enter_context(httpx.Client(base_url=address))
        client.get(f"{address}/_stcore/health")
        headers = {
            **client.headers,
            "Cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items()),
        }
        protocols = ["streamlit", client.cookies["_streamlit_xsrf"], *filter(None, [session])]
        connection = connect(
            stream_of(address),
            subprotocols=[Subprotocol(text) for text in protocols],
            origin=Origin(address),
            additional_headers={k: v for k, v in headers.items() if k in ("Cookie", "x-user")},
            max_size=200_000_000,
            **options,
        )
        yield Visitor(address, stack.enter_context(connection), client)


def upload_bytes(address: str) -> int:
    """Return how many bytes of uploads the page's process has in memory."""
    text = httpx.get(f"{address}/_stcore/metrics").text
    match = re.search(r'cache_type="UploadedFileManager".*?\} (\d+)', text)
    return int(match.group(1)) if match else 0


def wait_for_upload_bytes(address: str, expected: int) -> None:
    deadline = time.monotonic() + 40
    while (n_bytes := upload_bytes(address)) != expected:
        assert time.monotonic() < deadline, n_bytes
        time.sleep(0.5)


def question_of(page: str) -> BackMsg:
    question = BackMsg()
    question.rerun_script.page_name = page
    return question


def test_uploads_leave_the_memory_when_their_check_starts(page_server: str) -> None:
    with visiting(page_server) as visitor:
        elements = [
            m.delta.new_element
            for m in visitor.run(question_of("data"))
            if m.WhichOneof("type") == "delta"
        ]
        uploader = next(
            e.file_uploader for e in elements if e.file_uploader.label == "Structure files"
        )
        button = next(e.button for e in elements if e.button.label == "Check the files")
        data = WATER + b"\n" * UPLOAD_BYTES
        file_id = visitor.upload("water.extxyz", data)
        wait_for_upload_bytes(page_server, len(data))
        question = question_of("data")
        states = question.rerun_script.widget_states.widgets
        states.add(id=button.id, trigger_value=True)
        file = states.add(id=uploader.id).file_uploader_state_value.uploaded_file_info.add()
        file.file_id = file_id
        file.name = "water.extxyz"
        file.size = len(data)
        address = f"/_stcore/upload_file/{visitor.session_id}/{file_id}"
        file.file_urls.file_id = file_id
        file.file_urls.upload_url = address
        file.file_urls.delete_url = address
        messages = visitor.run(question)
        assert any("water.extxyz" in str(message) for message in messages), "the data set is there"
        wait_for_upload_bytes(page_server, 0)


def test_uploads_leave_the_memory_when_the_session_has_ended(page_server: str) -> None:
    with visiting(page_server) as visitor:
        visitor.run(question_of("data"))
        visitor.upload("water.extxyz", bytes(UPLOAD_BYTES))
        wait_for_upload_bytes(page_server, UPLOAD_BYTES)
    wait_for_upload_bytes(page_server, 0)
