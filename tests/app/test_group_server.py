"""A running server of a group on the loopback address: what a visitor can forge, guess and keep."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from bandgap.jobs.dashboard import free_port
from bandgap.jobs.database import Database
from bandgap.jobs.home import Home
from bandgap.jobs.people import claim, links, open_link, share, withdraw
from tests.app.conftest import Workspace
from tests.app.test_server import (
    Visitor,
    page_process,
    question_of,
    settings_of_port,
    stream_of,
    visiting,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux")

ROOT = Path(__file__).resolve().parents[2]
PROXY = "127.0.0.2"
ANN, BOB = "ann@example.org", "bob@example.org"
COOKIE_SECRET = "secret-of-the-test-0123"


@dataclass(frozen=True)
class GroupServer:
    """Its address and store, and a workspace of Ann with a data set."""

    address: str
    database: Database
    workspace: str
    dataset: str

    def client(self, person: str, **headers: str) -> httpx.Client:
        """Return what the proxy sends for a person."""
        transport = httpx.HTTPTransport(local_address=PROXY)
        headers = {"x-user": person, **headers} if person else headers
        return httpx.Client(base_url=self.address, transport=transport, headers=headers)

    @contextlib.contextmanager
    def visiting(self, person: str, **options: Any) -> Iterator[Visitor]:
        with (
            self.client(person) as client,
            visiting(self.address, client=client, source_address=(PROXY, 0), **options) as visitor,
        ):
            yield visitor


@contextlib.contextmanager
def serving(folder: Path, *, owner: str = ANN, **rules: str) -> Iterator[GroupServer]:
    port = int(rules.pop("port", 0)) or free_port("127.0.0.1", 0)
    workspace = Workspace(str(uuid.uuid4()), Home(folder))
    dataset = workspace.add_labelled(5)
    claim(workspace.library.database, workspace.id, owner)
    code = (
        f"import sys; from app import server; sys.argv = ['', {settings_of_port(port, **rules)!r}]"
    )
    command = [sys.executable, "-c", f"{code}; server.main()"]
    with page_process(command, port, folder) as address:
        yield GroupServer(address, workspace.library.database, workspace.id, dataset)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupServer]:
    folder = tmp_path_factory.mktemp("group")
    with serving(folder, trusted_proxy=PROXY, user_header="X-User") as server:
        yield server


def page_of(visitor: Visitor, question: BackMsg) -> str:
    return "\n".join(str(message) for message in visitor.run(question))


def asking_for(workspace: str) -> BackMsg:
    question = question_of("")
    question.rerun_script.query_string = f"ws={workspace}"
    return question


def test_forged_header_from_another_address_opens_nothing(server: GroupServer) -> None:
    forged = {
        "X-User": ANN,
        "X-Forwarded-For": PROXY,
        "X-Real-Ip": PROXY,
        "Forwarded": f"for={PROXY}",
    }
    paths = ("/", "/data", f"/pictures/{server.dataset}/0.svg", "/media/x", "/_stcore/host-config")
    for path in paths:
        assert httpx.get(f"{server.address}{path}", headers=forged).status_code == 403, path
    upload = f"{server.address}/_stcore/upload_file/{uuid.uuid4()}/{uuid.uuid4()}"
    assert httpx.put(upload, headers=forged, files={"file": b"x"}).status_code == 403
    with pytest.raises(InvalidStatus, match="403"):
        connect(stream_of(server.address), additional_headers=forged)
    with server.client("") as nobody:
        assert [nobody.get(path).status_code for path in paths] == [401] * len(paths)
    with server.client(ANN) as ann:
        assert ann.get("/").status_code == 200


def test_workspace_and_pictures_of_another_person_stay_closed(server: GroupServer) -> None:
    picture = f"/pictures/{server.dataset}/0.svg"
    with server.client(ANN.upper()) as ann, server.client(BOB) as bob:
        assert [client.get(picture).status_code for client in (ann, bob)] == [200, 404]
    with server.visiting(ANN) as ann, server.visiting(BOB) as bob:
        assert "5 structures" in page_of(ann, asking_for(server.workspace))
        answer = page_of(bob, asking_for(server.workspace))
        assert "No such workspace" in answer and "5 structures" not in answer


def test_withdrawn_link_ends_the_downloads_and_fragments_of_an_open_page(
    server: GroupServer,
) -> None:
    database = server.database
    open_link(database, share(database, server.workspace, ANN, may_write=False), BOB)
    with server.visiting(BOB) as bob:
        question = asking_for(server.workspace)
        question.rerun_script.page_name = "data"
        deltas = [message.delta for message in bob.run(question)]
        buttons = [delta.new_element.download_button for delta in deltas]
        download = BackMsg()
        download.backend_operation_request.session_id = bob.session_id
        download.backend_operation_request.deferred_file.file_id = next(
            button.deferred_file_id for button in buttons if "verdicts" in button.label
        )
        assert bob.run(download)[-1].backend_operation_response.deferred_file.url
        (link,) = links(database, server.workspace)
        withdraw(database, server.workspace, ANN, link.digest)
        assert bob.run(download)[-1].backend_operation_response.error_msg
        waiting = next(d for d in deltas if "worker has not been started" in str(d))
        question.rerun_script.fragment_id = waiting.fragment_id
        answer = page_of(bob, question)
        assert "No such workspace" in answer and "exception" not in answer


def test_session_of_another_person_is_not_resumed(server: GroupServer) -> None:
    with server.visiting(ANN) as ann:
        ann.run(asking_for(server.workspace))
    for person, is_resumed in ((BOB, False), (ANN, True)):
        with server.visiting(person, session=ann.session_id) as visitor:
            visitor.run(question_of(""))
            assert (visitor.session_id == ann.session_id) is is_resumed


@pytest.fixture(scope="module")
def login_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupServer]:
    """A server with a login at a provider of OpenID Connect on this machine."""
    if importlib.util.find_spec("oidc_provider_mock") is None:
        pytest.skip("oidc-provider-mock is not installed")
    folder = tmp_path_factory.mktemp("login")
    port, provider_port = free_port("127.0.0.1", 0), free_port("127.0.0.1", 20_000)
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(provider_port)]
    with subprocess.Popen(command) as provider:
        file = folder / "login.toml"
        file.write_text(
            f"""[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "{COOKIE_SECRET}"
client_id = "bandgap"
client_secret = "secret"
server_metadata_url = "http://127.0.0.1:{provider_port}/.well-known/openid-configuration"
"""
        )
        try:
            with serving(folder, port=str(port), login=str(file)) as server:
                yield server
        finally:
            provider.terminate()


def logged_in(server: GroupServer, client: httpx.Client, person: str) -> None:
    """Press the button of the login page, and log in at the provider as a browser does."""
    with visiting(server.address, client=client) as visitor:
        messages = visitor.run(question_of(""))
        (button,) = [
            message.delta.new_element.button
            for message in messages
            if message.delta.new_element.button.label == "Log in"
        ]
        question = question_of("")
        question.rerun_script.widget_states.widgets.add(id=button.id, trigger_value=True)
        (address,) = filter(None, (m.auth_redirect.url for m in visitor.run(question)))
    form = client.get(urljoin(server.address, address), follow_redirects=True)
    answer = client.post(form.url, data={"sub": person}, follow_redirects=True)
    assert answer.url == f"{server.address}/" and answer.status_code == 200


def test_login_opens_the_workspaces_of_the_person_alone(login_server: GroupServer) -> None:
    with httpx.Client() as ann, httpx.Client() as bob:
        with visiting(login_server.address, client=ann) as visitor:
            answer = page_of(visitor, asking_for(login_server.workspace))
        assert '"Log in"' in answer and "structures" not in answer
        picture = f"{login_server.address}/pictures/{login_server.dataset}/0.svg"
        assert ann.get(picture).status_code == 404
        logged_in(login_server, ann, ANN.title())
        logged_in(login_server, bob, BOB)
        assert [client.get(picture).status_code for client in (ann, bob)] == [200, 404]
        for client, text in ((ann, "5 structures"), (bob, "No such workspace")):
            with visiting(login_server.address, client=client) as visitor:
                assert text in page_of(visitor, asking_for(login_server.workspace))


def test_expired_or_forged_login_is_none(
    login_server: GroupServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = login_server.address
    user = f'{{"origin": "{origin}", "is_logged_in": true, "email": "{ANN}"}}'

    def page_with(cookie: bytes) -> str:
        cookies = {"_streamlit_user": cookie.decode()}
        with (
            httpx.Client(cookies=cookies) as client,
            visiting(login_server.address, client=client) as visitor,
        ):
            return page_of(visitor, asking_for(login_server.workspace))

    fresh = create_signed_value(COOKIE_SECRET, "_streamlit_user", user)
    forged = create_signed_value("another-secret-of-16", "_streamlit_user", user)
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr("itsdangerous.timed.time.time", lambda: now - 32 * 86_400)
        expired = create_signed_value(COOKIE_SECRET, "_streamlit_user", user)
    assert "5 structures" in page_with(fresh)
    for cookie in (forged, expired):
        assert '"Log in"' in page_with(cookie)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed")
def test_caddy_of_the_guide_names_the_person_who_logged_in(tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/group-server.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(caddyfile|ini)\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    config = dict(blocks)["caddyfile"]
    file = tmp_path / "Caddyfile"
    file.write_text(config)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]
    validation = [command[0], "validate", *command[2:]]
    assert subprocess.run(validation, env=environment, check=False).returncode == 0
    header = re.search(r"--user-header (\S+)", dict(blocks)["ini"])
    assert header is not None
    port = free_port("127.0.0.1", 0)
    rules = {"trusted_proxy": "127.0.0.1", "user_header": header[1]}
    with serving(tmp_path, owner="ann", **rules) as server:
        proxied = config.replace("gaps.example.org", f"http://127.0.0.1:{port}")
        proxied = proxied.replace("127.0.0.1:8501", server.address.removeprefix("http://"))
        file.write_text(proxied.replace("{\n", "{\n\tadmin off\n", 1))
        picture = f"http://127.0.0.1:{port}/pictures/{server.dataset}/0.svg"
        with (
            subprocess.Popen(command, env=environment) as process,
            httpx.Client(
                transport=httpx.HTTPTransport(retries=6), headers={header[1]: "ann"}, timeout=60
            ) as client,
        ):
            try:
                logins = (None, ("ann", "trial-password"), ("bob", "trial-password"))
                codes = [client.get(picture, auth=login).status_code for login in logins]
            finally:
                process.terminate()
    assert codes == [401, 200, 404]
