"""Only the user who runs the server, on the same machine, may see all workspaces."""

import os
import socket
import subprocess
import sys

import pytest

from bandgap.jobs.server_owner import is_server_owner, other_users_of

OWN = {"Host": "127.0.0.1:8501", "Origin": "http://127.0.0.1:8501"}
UNUSED_PORT = 1
NOBODY = 65534


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"host": "localhost:8501", "origin": "http://localhost:8501"},
        {"Host": "[::1]:8501", "Origin": "http://[::1]:8501"},
    ],
)
def test_browser_of_the_own_machine_is_known_by_host_and_origin(headers):
    assert is_server_owner(headers, address="127.0.0.1", port=UNUSED_PORT)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "127.0.0.1:8501"},
        OWN | {"Origin": "https://bandgap.example.org"},  # behind a proxy that hides the host
        OWN | {"Origin": "http://evil.example"},
        OWN | {"Origin": "null"},
        {"Host": "bandgap.example.org", "Origin": "http://127.0.0.1:8501"},
        OWN | {"Origin": "http://127.0.0.1.evil.example"},
        OWN | {"Origin": "http://localhost.evil.example"},
        OWN | {"X-Forwarded-For": "127.0.0.1"},
        OWN | {"x-real-ip": "127.0.0.1"},
        OWN | {"forwarded": "for=127.0.0.1"},
    ],
)
def test_request_from_elsewhere_or_through_a_proxy_is_not_of_the_own_machine(headers):
    assert not is_server_owner(headers, address="127.0.0.1", port=UNUSED_PORT)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "192.168.0.5", "my-machine"])
def test_server_that_others_can_reach_is_not_of_the_own_machine(address):
    assert not is_server_owner(OWN, address=address, port=UNUSED_PORT)


@pytest.mark.skipif(
    not os.path.exists("/proc/net/tcp") or os.getuid() != 0, reason="needs Linux and the root user"
)
def test_connection_of_another_user_of_a_shared_machine_closes_the_list():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert other_users_of(port) == set() and is_server_owner(
                OWN, address="127.0.0.1", port=port
            )
            script = (
                f"import os, socket, sys; os.setuid({NOBODY}); c = "
                f"socket.socket(); c.connect(('127.0.0.1', {port})); "
                "print('connected', flush=True); sys.stdin.read()"
            )
            command = [sys.executable, "-c", script]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as stranger:
                assert stranger.stdout is not None and stranger.stdout.readline() == "connected\n"
                assert other_users_of(port) == {NOBODY}
                assert not is_server_owner(OWN, address="127.0.0.1", port=port)
                stranger.communicate()
