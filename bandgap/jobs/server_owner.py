"""Whether a visitor of the dashboard is the user who started it, on the same machine.

Only this user may see the ids of workspaces that the browser does not know. Three conditions:

- The server listens on a loopback address.
- The browser names a loopback address as host and as origin, and no proxy passed the request on. A
  page of another host, or one behind a proxy, has another origin.
- Every connection to the server belongs to the user who runs it, where the operating system lists
  them (/proc/net/tcp of Linux). Other users of a shared machine reach its loopback addresses too.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from bandgap.jobs.service.tokens import is_loopback

FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip")
CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"  # state of a connection
_ROOT = 0  # user id


def is_server_owner(headers: Mapping[str, str], *, address: str, port: int) -> bool:
    """Return whether a request with these headers comes from the user who runs the server.

    `address` and `port` are those on which the server listens.
    """
    names = {name.lower(): value for name, value in headers.items()}
    if any(name.lower() in names for name in FORWARDED):
        return False
    host = urlsplit(f"//{names.get('host', '')}").hostname
    origin = urlsplit(names.get("origin", "")).hostname
    if not all(map(is_loopback, (address, host or "", origin or ""))):
        return False
    return other_users_of(port) == set()


def other_users_of(port: int) -> set[int]:
    """Return the ids of users who are connected to a port, without this process's user and root.

    Empty on systems other than Linux, which do not list the users.
    """
    if not hasattr(os, "getuid"):
        return set()
    return set(_connected_users(port)) - {os.getuid(), _ROOT}


def _connected_users(port: int) -> Iterator[int]:
    """Yield the user of every established connection to this port, as proc(5) lists them."""
    for path in CONNECTIONS:
        try:
            lines = path.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, _, remote, state, _, _, _, user, *_ = line.split()
            if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                yield int(user)
