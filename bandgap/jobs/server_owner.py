"""Whether a visitor of the dashboard is the user who started it, on that user's own machine.

Only such a visitor may see the ids of workspaces that are not known to the browser. All of these must hold: the server
listens on a loopback address; the browser named a loopback address as host and as origin, and no proxy passed the
request on (a page of another host, or one behind a proxy, has another origin); and, where the operating system tells it
(/proc/net/tcp of Linux), every connection to the server belongs to the user who runs it, as other users of a shared
machine reach its loopback addresses, too.
"""

import ipaddress
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip")
CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED, _ROOT = "01", 0


def is_server_owner(headers: Mapping[str, str], *, address: str, port: int) -> bool:
    """Return whether a request with these headers comes from the user who runs the server at this address and port."""
    names = {name.lower(): value for name, value in headers.items()}
    if any(name.lower() in names for name in FORWARDED):
        return False
    host = urlsplit(f"//{names.get('host', '')}").hostname
    origin = urlsplit(names.get("origin", "")).hostname
    if not (is_loopback(address) and is_loopback(host) and is_loopback(origin)):
        return False
    return other_users_of(port) == set()


def is_loopback(host: str | None) -> bool:
    """Return whether a host name or an address is one of the machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def other_users_of(port: int) -> set[int]:
    """Return the ids of other users than this process's and root who are connected to a port of this machine.

    Empty where the operating system does not tell: systems other than Linux.
    """
    if not hasattr(os, "getuid"):
        return set()
    return set(_connected_users(port)) - {os.getuid(), _ROOT}


def _connected_users(port: int) -> Iterator[int]:
    """Yield the user of every established connection whose far end is this port, as proc(5) lists them."""
    for path in CONNECTIONS:
        try:
            lines = path.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, _, remote, state, _, _, _, user, *_ = line.split()
            if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                yield int(user)
