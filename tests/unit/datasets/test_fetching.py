"""Downloads from local servers over HTTP and FTP: resumed, interrupted, damaged and refused."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.fetching import SUMS, fetch
from bandgap.foundation.errors import InputError
from tests.unit.cli.conftest import Run, run

__all__ = ["run"]  # a fixture
NAME = "df_5k.json"
CONTENT = np.random.default_rng(0).bytes(3_000_000)
SUMS_TEXT = (
    f"{hashlib.sha512(b'other').hexdigest()}  README\n"
    f"{hashlib.sha512(CONTENT).hexdigest()} *m1507656/{NAME}\n"
)


class Site:
    """Files of a server, and the requests that it received.

    The server closes a connection after `max_bytes`.
    """

    def __init__(self) -> None:
        self.files = {SUMS: SUMS_TEXT.encode(), NAME: CONTENT}
        # First bytes of the requests for the data file.
        self.first_bytes: list[int] = []
        self.max_bytes = len(CONTENT)
        self.resumes = True


class Pages(BaseHTTPRequestHandler):
    def __init__(self, site: Site, *arguments: object) -> None:
        self.site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        data = self.site.files.get(name)
        start = self.headers.get("Range") if self.site.resumes else None
        first = int(start.removeprefix("bytes=").rstrip("-")) if start else 0
        if data is None or first >= len(data):
            self.send_error(404 if data is None else 416)
            return
        if name == NAME:
            self.site.first_bytes.append(first)
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        self.wfile.write(data[first : first + self.site.max_bytes])

    def log_message(self, *words: object) -> None:
        pass


def serve_ftp(listener: socket.socket, site: Site) -> None:
    """Answer the commands of ftplib, one client after another, until the socket is closed."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, client.makefile("rb") as lines, socket.create_server(("127.0.0.1", 0)) as data:
            first = 0
            port = data.getsockname()[1]
            client.sendall(b"220 ready\r\n")
            for line in lines:
                word, _, argument = line.decode().strip().partition(" ")
                content = site.files.get(argument.rpartition("/")[2], b"")
                if word == "RETR":
                    client.sendall(b"150 here\r\n")
                    with data.accept()[0] as connection:
                        connection.sendall(content[first : first + site.max_bytes])
                    if argument.endswith(NAME):
                        site.first_bytes.append(first)
                    client.sendall(b"226 done\r\n")
                    continue
                first = int(argument) if word == "REST" else first
                answers = {
                    "USER": "331 password",
                    "PASS": "230 in" if argument == "secret" else "530 no",
                    "TYPE": "200 ok",
                    "SIZE": f"213 {len(content)}" if content else "550 no such file",
                    "REST": "350 go on",
                    "PASV": f"227 (127,0,0,1,{port // 256},{port % 256})",
                    "EPSV": f"229 (|||{port}|)",
                    "QUIT": "221 bye",
                }
                client.sendall(f"{answers[word]}\r\n".encode())


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture(params=("http", "ftp"))
def base(request: pytest.FixtureRequest, site: Site) -> Iterator[str]:
    if request.param == "http":
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, site)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/m1507656"
            server.shutdown()
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_ftp, args=(listener, site), daemon=True)
        thread.start()
        yield f"ftp://user:secret@127.0.0.1:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_fetch_downloads_a_file_once(base: str, site: Site, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(NAME, tmp_path / "new", base=base).read_bytes() == CONTENT
    assert site.first_bytes == [0]
    assert [p.name for p in (tmp_path / "new").iterdir()] == [NAME]


def test_fetch_resumes_an_incomplete_download(base: str, site: Site, tmp_path: Path) -> None:
    site.max_bytes = 1_200_000
    for n_bytes in (1_200_000, 2_400_000):
        with pytest.raises(InputError, match="Run the same command again: it resumes"):
            fetch(NAME, tmp_path, base=base)
        assert (tmp_path / f"{NAME}.part").read_bytes() == CONTENT[:n_bytes]
    assert fetch(NAME, tmp_path, base=base).read_bytes() == CONTENT
    assert site.first_bytes == [0, 1_200_000, 2_400_000]


def test_damaged_download_is_removed(base: str, site: Site, tmp_path: Path) -> None:
    site.files[NAME] = CONTENT[:-1] + b"x"
    with pytest.raises(
        InputError, match=r"is published. The file was damaged on its way and is removed"
    ):
        fetch(NAME, tmp_path, base=base)
    assert not list(tmp_path.iterdir())


def test_fetch_with_a_part_of_another_file_restarts(base: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(bytes(len(CONTENT) + 10))
    assert fetch(NAME, tmp_path, base=base).read_bytes() == CONTENT
    assert site.first_bytes[-1] == 0


def test_fetch_with_another_existing_file_keeps_it_and_is_refused(
    base: str, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_bytes(b"mine")
    with pytest.raises(InputError, match="is not the published file. Move it away"):
        fetch(NAME, tmp_path, base=base)
    assert (tmp_path / NAME).read_bytes() == b"mine"


def test_server_without_the_file_or_its_sum_is_named(base: str, site: Site, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="df_31k.json is not in SHA512sums of 127.0.0.1"):
        fetch("df_31k.json", tmp_path, base=base)
    del site.files[NAME]
    with pytest.raises(InputError, match="127.0.0.1 cannot be read"):
        fetch(NAME, tmp_path, base=base)


@pytest.mark.parametrize("base", ["http"], indirect=True)
def test_fetch_from_a_server_without_ranges_restarts(base: str, site: Site, tmp_path: Path) -> None:
    site.resumes = False
    (tmp_path / f"{NAME}.part").write_bytes(b"something else")
    assert fetch(NAME, tmp_path, base=base).read_bytes() == CONTENT


def test_without_a_network_the_command_says_what_to_do(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    done = run(
        "data",
        "fetch",
        "oe62",
        "--out",
        tmp_path,
        "--file",
        NAME,
        "--address",
        f"http://127.0.0.1:{port}/",
    )
    assert done.exit_code == 1
    assert (
        "Without a network here, download the file on another machine (doi:10.14459/2019mp1507656)"
        in done.stderr
    )
    assert "Traceback" not in done.output
