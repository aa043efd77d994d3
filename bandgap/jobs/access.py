"""Who may use the dashboard: checks of host name, origin, proxy and token before Streamlit."""

import hashlib
import hmac
import ipaddress
import secrets
import socket
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from bandgap.foundation.errors import ConfigError, printable
from bandgap.foundation.extras import package
from bandgap.jobs.service.tokens import (
    MIN_LENGTH,
    check_proxy,
    is_from,
    is_loopback,
    named_person,
    token_of,
)

VARIABLE = "BANDGAP_APP_TOKEN"
PARAMETER = "token"  # of the address that is printed
OPEN_PATH = "/_stcore/health"  # answers without a token, for monitoring
HIDDEN_PATH = "/_stcore/metrics"  # of Streamlit: its sessions and caches
LOGIN_SETTINGS = (
    "redirect_uri",
    "cookie_secret",
    "client_id",
    "client_secret",
    "server_metadata_url",
)
COOKIE_S = 30 * 24 * 3600
SECURITY_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@dataclass(frozen=True)
class AccessRules:
    """Who may use a dashboard that listens on `host` and `port`.

    Without a token, everyone who reaches the address. `host_names` are further names that browsers
    may use for it. With a proxy, all requests come through it, their origin may be any of these
    names, and its `user_header` names the person. `login` is the file of the settings of a login.
    """

    host: str
    port: int
    token: str | None = None
    host_names: tuple[str, ...] = ()
    trusted_proxy: str = ""
    user_header: str = ""
    login: str = ""

    @property
    def cookie(self) -> str:
        """The name of the cookie, with the port, as all ports of a host share their cookies."""
        return f"bandgap-{self.port}"

    @property
    def cookie_value(self) -> str:
        """The value of the cookie: a digest, as cookies do not allow all characters of a token."""
        key = (self.token or "").encode("ascii")
        return hmac.new(key, b"cookie of the bandgap dashboard", hashlib.sha256).hexdigest()

    def accepts_host(self, header: str | None) -> bool:
        """Return whether a `Host` header names this server.

        A page of another site that makes its name point to this machine (DNS rebinding) still sends
        that name. A numeric address is safe, as nobody else can make it point to this machine.
        """
        parts = _split(f"//{header or ''}")
        if parts is None or parts.hostname is None or (parts.path, parts.query) != ("", ""):
            return False
        name = parts.hostname.rstrip(".")
        if is_loopback(name) or name in self._names():
            return True
        return not is_loopback(self.host) and _is_address(name)

    def accepts_origin(self, origin: str, host: str) -> bool:
        """Return whether a page of this origin may call the server by this `Host` header."""
        parts = _split(origin)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            return False
        if parts.netloc.lower() == host.lower():
            return True
        return bool(self.trusted_proxy) and parts.hostname.rstrip(".") in self._names()

    def accepts_token(self, text: str) -> bool:
        """Return whether the text is the token, in a time that does not depend on the text."""
        token = (self.token or "").encode("ascii")
        return bool(token) and hmac.compare_digest(text.encode("utf-8", "replace"), token)

    def accepts_cookie(self, text: str) -> bool:
        """Return whether the text is the value of the cookie; true where there is no token."""
        expected = self.cookie_value.encode("ascii")
        is_equal = hmac.compare_digest(text.encode("utf-8", "replace"), expected)
        return is_equal or self.token is None

    def _names(self) -> frozenset[str]:
        names = list(self.host_names)
        if not is_loopback(self.host):
            names += [self.host, socket.gethostname()]
        return frozenset(name.lower().rstrip(".") for name in names)


def access_rules(
    host: str,
    port: int,
    *,
    token_file: Path | None = None,
    new_token: bool = False,
    host_names: Sequence[str] = (),
    trusted_proxy: str = "",
    user_header: str = "",
    login: Path | None = None,
) -> AccessRules:
    """Return the rules of a dashboard.

    The token is that of the file, else that of $BANDGAP_APP_TOKEN, else with `new_token` a new one.
    Raises ConfigError where the token, the proxy or the login cannot be used, a host name is
    invalid, or other machines could use the dashboard without any of them.
    """
    token = token_of(token_file, VARIABLE)
    if token is None and new_token:
        token = secrets.token_urlsafe(32)
    for name in host_names:
        parts = _split(f"//{name}")
        if parts is None or parts.netloc != name or parts.hostname != name.lower():
            raise ConfigError(
                f"--allowed-host is {printable(name)!r}. Accepted: the name of a host without a "
                "scheme and without a port, such as gaps.example.org."
            )
    if user_header and login:
        raise ConfigError("--user-header and --login both say who a visitor is. Give one of them.")
    check_proxy(user_header, trusted_proxy, has_login=login is not None)
    if login:
        read_login(login)
    elif token is None and not user_header and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in, and nothing says who may. For yourself add "
            "--new-token: the address that is printed then has a token. For a group give "
            "--user-header NAME --trusted-proxy ADDRESS where a proxy logs people in, or --login "
            "FILE. Or leave --host out to serve this machine alone."
        )
    return AccessRules(
        host,
        port,
        token,
        tuple(host_names),
        trusted_proxy,
        user_header,
        str(login.resolve()) if login else "",
    )


def read_login(file: Path) -> dict[str, Any]:
    """Return the settings of a login by OpenID Connect, the table `auth` of a TOML file.

    Raises ConfigError where one is missing, or another program that is needed.
    """
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))["auth"]
        texts = {name: str(settings[name]) for name in LOGIN_SETTINGS}
        if len(texts["cookie_secret"]) < MIN_LENGTH:
            raise ValueError(f"cookie_secret has less than {MIN_LENGTH} characters")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{file}: no settings of a login ({error}). Accepted: TOML with a table [auth] of "
            f"{', '.join(LOGIN_SETTINGS)}; cookie_secret has at least {MIN_LENGTH} characters."
        ) from error
    package("authlib", extra="login", user="--login")
    return texts


def address_with_token(address: str, token: str | None) -> str:
    """Return the address with the token, which gives access."""
    return address if token is None else f"{address}/?{urlencode({PARAMETER: token})}"


class AccessMiddleware:
    """ASGI middleware: refuses requests that break the rules, and adds the security headers."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        response = self._answer(scope)
        if response is None:
            await self._app(_same_origin(scope), receive, send_with_headers)
        elif scope["type"] == "websocket":
            await WebSocketClose(code=1008)(scope, receive, send)
        else:
            await response(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not passed to Streamlit, or None."""
        rules = self._rules
        request = HTTPConnection(scope)
        host = request.headers.get("host")
        if host is None or not rules.accepts_host(host):
            return _refusal(
                400,
                f"This server is not known as {printable((host or 'a host without name')[:100])}. "
                "Use the address that it printed, or start it with --allowed-host NAME.",
            )
        has_effect = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        origins = request.headers.getlist("origin")
        if has_effect and not all(rules.accepts_origin(origin, host) for origin in origins):
            return _refusal(403, "Pages of other sites cannot use this server.")
        if scope["path"] != OPEN_PATH:
            if rules.trusted_proxy and not is_from(request, rules.trusted_proxy):
                return _refusal(403, "Only the proxy of this server may send it requests.")
            if rules.user_header and not named_person(request, rules.user_header):
                return _refusal(401, "The proxy has not named you. Log in there again.")
        if scope["path"] == OPEN_PATH or rules.accepts_cookie(
            request.cookies.get(rules.cookie, "")
        ):
            if scope["path"].startswith(HIDDEN_PATH):
                return _refusal(404, "There is no such page.")
            return self._without_token(request) if rules.token is not None else None
        if rules.accepts_token(request.query_params.get(PARAMETER, "")):
            return self._without_token(request)
        return _refusal(
            401,
            "This dashboard asks for a token. Open the address that `bandgap app` printed at its "
            "start: it ends with the token.",
        )

    def _without_token(self, request: HTTPConnection) -> Response | None:
        """Return a redirect to the address without the token, if it has one; it sets the cookie."""
        scope = request.scope
        rules = self._rules
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        if not rules.accepts_token(request.query_params.get(PARAMETER, "")):
            return None
        query = [
            pair
            for pair in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if pair[0] != PARAMETER
        ]
        target = "/" + quote(scope["path"].lstrip("/")) + (f"?{urlencode(query)}" if query else "")
        response = RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
        response.set_cookie(
            rules.cookie,
            rules.cookie_value,
            max_age=COOKIE_S,
            httponly=True,
            samesite="lax",
        )
        return response


def _same_origin(scope: Scope) -> Scope:
    """Return the scope with the host of its accepted origin as its `Host`.

    A proxy may replace `Host`. For an origin other than `Host`, Streamlit requests the external
    address of this machine over the internet (`net_util.get_external_ip`), in its event loop.
    """
    origin = Headers(scope=scope).get("origin")
    parts = None if origin is None else _split(origin)
    if parts is None or not parts.netloc:
        return scope
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {**scope, "headers": [*headers, (b"host", parts.netloc.encode("latin-1"))]}


def _refusal(code: int, sentence: str) -> Response:
    return PlainTextResponse(
        f"{sentence}\n", status_code=code, headers={"Cache-Control": "no-store"}
    )


def _split(address: str) -> SplitResult | None:
    """Return the parts of an address, None where it is invalid or contains a user name."""
    try:
        parts = urlsplit(address)
        has_user = "@" in parts.netloc
        _ = parts.port  # raises ValueError where it is no number
    except ValueError:
        return None
    return None if has_user else parts


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
