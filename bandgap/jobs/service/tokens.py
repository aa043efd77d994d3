"""The token that a request must carry, and who may ask where there is none: this machine alone."""

import hmac
import ipaddress
import os
from pathlib import Path

from bandgap.foundation.errors import ConfigError

VARIABLE = "BANDGAP_SERVICE_TOKEN"
SHORTEST = 16
_HOW = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


def token_of(file: Path | None, variable: str = VARIABLE) -> str | None:
    """Return the token of a file, else that of the environment variable, None where neither is given.

    Raises ConfigError where it is too short, is more than one line or holds what a header cannot.
    """
    if file is None and variable not in os.environ:
        return None
    where = variable if file is None else str(file)
    try:
        text = os.environ[variable] if file is None else file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{where}: the token cannot be read ({error}). Write one line of ASCII: {_HOW}"
        ) from error
    token = text.strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{where}: not a token. Accepted: one word of at least {SHORTEST} ASCII characters. One is made by: {_HOW}"
        )
    return token


def check_host(host: str, token: str | None) -> None:
    """Raise ConfigError where other machines could ask without a token."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in, and there is no token. Give one by --token-file FILE or {VARIABLE} "
            "(one is made by: " + _HOW + "), or leave --host out to serve this machine alone."
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_let_in(authorization: str | None, token: str | None) -> bool:
    """Return whether the header `Authorization` carries the token, compared in a time that tells nothing of it."""
    if token is None:
        return True
    scheme, _, given = (authorization or "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode("ascii"))
    return right and scheme.lower() == "bearer"
