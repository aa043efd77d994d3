"""Who may use the dashboard: hosts, origins, the token, and the headers of every response."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from bandgap.foundation.errors import ConfigError
from bandgap.jobs.access import OPEN_PATH, VARIABLE, AccessMiddleware, AccessRules, access_rules

TOKEN = 'a token; with "odd" characters'.replace(" ", "_")
OWN = "127.0.0.1:8501"
PROXY_ADDRESS = "192.0.2.7"


@dataclass(frozen=True)
class Answer:
    """A response; of a WebSocket, status 101 where it was accepted."""

    status: int
    headers: dict[str, str]
    text: str


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request with its `Host`, and accept every WebSocket."""
    host = dict(scope["headers"])[b"host"]
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept", "headers": [(b"x-host", host)]})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": host})


def ask(
    rules: AccessRules,
    target: str,
    *,
    method: str = "GET",
    address: str = PROXY_ADDRESS,
    twice: bool = False,
    **headers: str,
) -> Answer:
    """Send a request to the application behind the rules; the method WEBSOCKET opens one.

    It comes from an address, with every header `twice` if so.
    """
    path, _, query = target.partition("?")
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "websocket" if method == "WEBSOCKET" else "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "query_string": query.encode(),
        "client": (address, 50_000),
        "headers": [
            (k.encode(), v.encode())
            for k, v in [("host", OWN)] * ("host" not in headers) + [*headers.items()] * (1 + twice)
        ],
    }
    answered = AccessMiddleware(application, rules)(scope, receive, send)
    with ThreadPoolExecutor(1) as pool:  # browser tests leave a running loop in this thread
        pool.submit(asyncio.run, answered).result()
    statuses = {"websocket.accept": 101, "websocket.close": 403}
    status = statuses.get(sent[0]["type"]) or sent[0]["status"]
    replies = {k.decode(): v.decode() for k, v in sent[0].get("headers", ())}
    return Answer(status, replies, b"".join(message.get("body", b"") for message in sent).decode())


def stream(rules: AccessRules, **headers: str) -> Answer:
    """Open the WebSocket of Streamlit."""
    return ask(rules, "/_stcore/stream", method="WEBSOCKET", **headers)


def cookie_of(rules: AccessRules) -> dict[str, str]:
    return {"cookie": f"{rules.cookie}={rules.cookie_value}"} if rules.token else {}


LOOPBACK = AccessRules("127.0.0.1", 8501)
OPEN = AccessRules("0.0.0.0", 8501, token=TOKEN, host_names=("gaps.example.org",))
PROXY = AccessRules(
    "127.0.0.1",
    8501,
    host_names=("gaps.example.org",),
    trusted_proxy="192.0.2.0/29",
    user_header="x-user",
)
NAMED = {"x-user": "ann"}


@pytest.mark.parametrize(
    ("rules", "host", "is_accepted"),
    [
        (LOOPBACK, "localhost:9000", True),
        (LOOPBACK, "127.0.0.1", True),
        (LOOPBACK, "[::1]:8501", True),
        (LOOPBACK, "attacker.example:8501", False),
        (LOOPBACK, "localhost.attacker.example", False),
        (LOOPBACK, "192.0.2.1:8501", False),
        (LOOPBACK, "localhost@attacker.example", False),
        (LOOPBACK, "localhost:port", False),
        (LOOPBACK, "", False),
        (OPEN, "192.0.2.1:8501", True),
        (OPEN, "[2001:db8::1]:8501", True),
        (OPEN, "Gaps.Example.org.", True),
        (OPEN, "attacker.example", False),
        (PROXY, "gaps.example.org", True),
        (PROXY, "attacker.example", False),
    ],
)
def test_host_is_accepted_where_it_names_the_server(
    rules: AccessRules, host: str, is_accepted: bool
) -> None:
    assert rules.accepts_host(host) is is_accepted
    answer = ask(rules, "/", host=host, **cookie_of(rules), **NAMED)
    assert answer.status == (200 if is_accepted else 400)


def test_refused_host_is_told_which_option_accepts_it() -> None:
    assert ask(LOOPBACK, "/media/x.csv", host="attacker.example").text == (
        "This server is not known as attacker.example. Use the address that it printed, or start "
        "it with --allowed-host NAME.\n"
    )


@pytest.mark.parametrize(
    "origin", ["https://attacker.example", "http://127.0.0.1:3000", "null", "file://"]
)
def test_origin_of_another_page_is_refused_for_websockets_and_uploads(origin: str) -> None:
    assert stream(LOOPBACK, origin=origin).status == 403
    for method in ("PUT", "DELETE", "OPTIONS"):
        assert ask(LOOPBACK, "/_stcore/upload_file/a/b", method=method, origin=origin).status == 403


@pytest.mark.parametrize(
    "headers", [{}, {"origin": f"http://{OWN}"}], ids=["no browser", "own page"]
)
def test_own_origin_is_accepted(headers: dict[str, str]) -> None:
    assert stream(LOOPBACK, **headers).headers["x-host"] == OWN
    assert ask(LOOPBACK, "/_stcore/upload_file/a/b", method="PUT", **headers).status == 200


def test_origin_of_the_proxy_reaches_streamlit_as_the_host() -> None:
    origin = "https://gaps.example.org"
    assert stream(PROXY, origin=origin, **NAMED).headers["x-host"] == "gaps.example.org"
    assert stream(PROXY, origin="https://attacker.example").status == 403
    assert stream(LOOPBACK, origin=origin).status == 403


@pytest.mark.parametrize(
    "path",
    ["/", "/train", "/media/a.csv", "/static/js/x.js", "/_stcore/message", "/component/a"],
)
def test_without_the_token_every_address_but_health_is_refused(path: str) -> None:
    for wrong in ("", "?token=", "?token=wrong"):
        answer = ask(OPEN, f"{path}{wrong}")
        assert answer.status == 401 and "Open the address that `bandgap app` printed" in answer.text
        assert "set-cookie" not in answer.headers
    wrong_cookie = f"{OPEN.cookie}=wrong"
    assert ask(OPEN, path, cookie=wrong_cookie).status == 401
    assert ask(OPEN, path, **cookie_of(OPEN)).status == 200
    assert ask(OPEN, OPEN_PATH).status == 200


def test_without_the_token_uploads_and_websockets_are_refused() -> None:
    address = "/_stcore/upload_file/a/b"
    query = urlencode({"token": "wrong"})
    assert ask(OPEN, f"{address}?{query}", method="PUT").status == 401
    assert stream(OPEN).status == 403
    assert ask(OPEN, address, method="PUT", **cookie_of(OPEN)).status == 200
    assert stream(OPEN, **cookie_of(OPEN)).status == 101


def test_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read() -> None:
    answer = ask(OPEN, "/train?" + urlencode({"ws": "a b", "token": TOKEN}))
    assert (answer.status, answer.headers["location"]) == (303, "/train?ws=a+b")
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[0] == cookie_of(OPEN)["cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(parts)
    assert TOKEN not in answer.headers["set-cookie"]


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/metrics/"])
def test_figures_on_sessions_are_not_shown(path: str) -> None:
    assert ask(LOOPBACK, path).status == 404
    assert ask(OPEN, path, **cookie_of(OPEN)).status == 404
    assert ask(OPEN, f"{path}?{urlencode({'token': TOKEN})}").status == 303


@pytest.mark.parametrize("path", ["//attacker.example", "/\\attacker.example"])
def test_redirect_after_the_token_stays_on_this_server(path: str) -> None:
    location = ask(OPEN, f"{path}?{urlencode({'token': TOKEN})}").headers["location"]
    assert location.startswith("/") and location[1:2] not in ("/", "\\")


def test_cookie_of_another_token_is_refused() -> None:
    assert (
        ask(
            OPEN, "/", **cookie_of(AccessRules("0.0.0.0", 8501, token="another-token-of-old"))
        ).status
        == 401
    )


@pytest.mark.parametrize("path", ["/", "/media/x"])
@pytest.mark.parametrize("host", [OWN, "attacker.example"])
def test_every_response_has_the_security_headers(path: str, host: str) -> None:
    headers = {
        name.lower(): value for name, value in ask(LOOPBACK, path, host=host).headers.items()
    }
    assert headers["content-security-policy"] == "frame-ancestors 'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_need_a_token_or_a_person(
    host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(
        ConfigError, match=rf"--host {host} lets other machines in, .*--new-token.*--user-header"
    ):
        access_rules(host, 8501)
    assert access_rules(host, 8501, user_header="x", trusted_proxy="::1").token is None
    tokens = [access_rules(host, 8501, new_token=True).token for _ in range(2)]
    assert tokens[0] != tokens[1] and all(len(token or "") >= 40 for token in tokens)
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert access_rules(host, 8501, token_file=file, new_token=True).token == TOKEN
    monkeypatch.setenv(VARIABLE, "of-the-environment")
    assert access_rules(host, 8501).token == "of-the-environment"


@pytest.mark.parametrize(
    "path", ["/", "/train", "/media/a.csv", "/pictures/a/0.svg", "/auth/login"]
)
def test_header_of_a_person_counts_only_from_the_proxy_and_only_once(path: str) -> None:
    assert ask(PROXY, path, **NAMED).status == 200
    for forged in ({"address": "192.0.2.8"}, {"address": "127.0.0.1"}):
        assert (
            ask(PROXY, path, **forged, **NAMED, **{"x-forwarded-for": PROXY_ADDRESS}).status == 403
        )
    assert ask(PROXY, path).status == ask(PROXY, path, **{"x-user": " "}).status == 401
    assert ask(PROXY, path, twice=True, **NAMED).status == 401
    assert ask(PROXY, OPEN_PATH, address="127.0.0.1").status == 200


def test_forged_header_opens_no_websocket_and_uploads_nothing() -> None:
    assert stream(PROXY, **NAMED).status == 101
    assert stream(PROXY, address="192.0.2.8", **NAMED).status == stream(PROXY).status == 403
    upload = "/_stcore/upload_file/a/b"
    assert ask(PROXY, upload, method="PUT", address="192.0.2.8", **NAMED).status == 403


LOGIN = """[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "0123456789abcdef"
client_id = "bandgap"
client_secret = "secret"
server_metadata_url = "http://127.0.0.1:9000/.well-known/openid-configuration"
"""


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"user_header": "x"}, "anybody could send this header"),
        ({"trusted_proxy": "127.0.0.1"}, "not from whom"),
        ({"user_header": "x", "trusted_proxy": "gaps.example.org"}, "a numeric address"),
        ({"login": ""}, "no settings of a login"),
        ({"login": LOGIN.replace("[auth]", "[other]")}, "'auth'"),
        ({"login": LOGIN.replace("client_id", "id")}, "client_id"),
        ({"login": LOGIN.replace("0123456789abcdef", "xxx")}, "less than 16"),
        ({"login": LOGIN, "user_header": "x"}, "Give one of them"),
    ],
)
def test_settings_that_let_the_wrong_people_in_are_refused(
    settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    if "login" in settings:
        file = tmp_path / "login.toml"
        file.write_text(settings["login"])
        settings = {**settings, "login": file}
    with pytest.raises(ConfigError, match=problem):
        access_rules("0.0.0.0", 8501, **settings)


@pytest.mark.parametrize("name", ["https://gaps.example.org", "gaps.example.org:80", "a/b", ""])
def test_allowed_host_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"--allowed-host is .* Accepted: the name of a host without a scheme"
    ):
        access_rules("127.0.0.1", 8501, host_names=[name])
