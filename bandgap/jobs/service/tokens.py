"""Who may send requests: those with a token, those whom a proxy names, or only this machine."""

import hmac
import ipaddress
import os
from pathlib import Path

from starlette.requests import HTTPConnection

from bandgap.foundation.errors import ConfigError

VARIABLE = "BANDGAP_SERVICE_TOKEN"
MIN_LENGTH = 16
_COMMAND = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


def token_of(file: Path | None, variable: str = VARIABLE) -> str | None:
    """Return the token of a file or of the environment variable, None where neither is given.

    The file has priority. Raises ConfigError where the token is too short, is more than one line or
    has characters that a header must not have.
    """
    if file is None and variable not in os.environ:
        return None
    where = variable if file is None else str(file)
    try:
        text = os.environ[variable] if file is None else file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{where}: the token cannot be read ({error}). Write one line of ASCII: {_COMMAND}"
        ) from error
    token = text.strip()
    if len(token) < MIN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{where}: not a token. Accepted: one word of at least {MIN_LENGTH} ASCII characters. "
            f"One is made by: {_COMMAND}"
        )
    return token


def check_host(host: str, token: str | None, user_header: str = "") -> None:
    """Raise ConfigError where other machines could send requests without a token or a name."""
    if token is None and not user_header and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in, and there is no token. Give one by "
            f"--token-file FILE or {VARIABLE} (one is made by: {_COMMAND}), give --user-header "
            "NAME --trusted-proxy ADDRESS, or leave --host out to serve this machine alone."
        )


def check_proxy(user_header: str, trusted_proxy: str, *, has_login: bool = False) -> None:
    """Raise ConfigError where a proxy has no address, or names nobody."""
    if trusted_proxy and not (user_header or has_login):
        raise ConfigError(
            "--trusted-proxy says where requests come from, not from whom. Add --user-header NAME, "
            "the header in which the proxy names the person; `bandgap app` takes --login FILE, too."
        )
    if user_header and not trusted_proxy:
        raise ConfigError(
            f"--user-header {user_header} alone: anybody could send this header. Add "
            "--trusted-proxy ADDRESS, the only address from which requests are then accepted."
        )
    try:
        ipaddress.ip_network(trusted_proxy or "127.0.0.1")
    except ValueError as error:
        raise ConfigError(
            f"--trusted-proxy: {error}. Accepted: a numeric address such as 127.0.0.1, or a "
            "network such as 172.18.0.0/16."
        ) from None


def is_from(request: HTTPConnection, proxy: str) -> bool:
    """Return whether a request comes from an address or a network."""
    if request.client is None:
        return False
    address = ipaddress.ip_address(request.client.host)
    mapped = getattr(address, "ipv4_mapped", None)  # on a socket for IPv6 and IPv4
    return (mapped or address) in ipaddress.ip_network(proxy)


def named_person(request: HTTPConnection, header: str) -> str:
    """Return the person whom the proxy's header names, "" where it names none or several."""
    names = request.headers.getlist(header)
    return names[0].strip().lower() if len(names) == 1 else ""


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_access(authorization: str | None, token: str | None) -> bool:
    """Return whether the header `Authorization` has the token.

    The time of the comparison does not depend on the header.
    """
    if token is None:
        return True
    scheme, _, text = (authorization or "").partition(" ")
    is_equal = hmac.compare_digest(text.strip().encode("utf-8", "replace"), token.encode("ascii"))
    return is_equal and scheme.lower() == "bearer"
