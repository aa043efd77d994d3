"""The token of a request; without a token, only this machine is served."""

import hmac
import ipaddress
import os
from pathlib import Path

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


def check_host(host: str, token: str | None) -> None:
    """Raise ConfigError where other machines could send requests without a token."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in, and there is no token. Give one by "
            f"--token-file FILE or {VARIABLE} "
            "(one is made by: " + _COMMAND + "), or leave --host out to serve this machine alone."
        )


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
