"""Published data sets from their servers: a download that goes on where it ended, checked against published sums.

OE62 lies at doi:10.14459/2019mp1507656 beside a list SHA512sums of its files, on a server that speaks FTP and rsync;
user and password are both m1507656, as its page says.
"""

import contextlib
import ftplib
import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bandgap.foundation.errors import InputError, printable
from bandgap.foundation.progress import Progress, Update, no_progress

OE62 = "ftp://m1507656:m1507656@dataserv.ub.tum.de/"
OE62_FILES = ("df_62k.json", "df_31k.json", "df_5k.json")
SUMS = "SHA512sums"
SCHEMES = ("ftp", "http", "https")
_BLOCK = 1 << 20
_WAIT_S = 60.0
_MOST_SUMS = 1_000_000  # bytes
_LINE = re.compile(r"([0-9a-fA-F]{128})\s+\*?(?:\./)?(\S.*)")
_FAILURES = (urllib.error.URLError, http.client.HTTPException, OSError, EOFError, ftplib.Error)


@dataclass(frozen=True)
class _Stream:
    """The bytes of a file from a place on; `total` is the length of all of it, None where the server does not say."""

    first: int
    total: int | None
    blocks: Generator[bytes, None, None]


def fetch(name: str, folder: Path, *, base: str = OE62, progress: Progress = no_progress) -> Path:
    """Download a file that `SHA512sums` beside it lists, and return its path; one that is there and right is kept.

    What an earlier attempt left in NAME.part is gone on with. Raises InputError that says what to do where the server
    cannot be reached, the download ends early (what came is kept), or the sum is another (it is removed).
    """
    if urlsplit(base).scheme not in SCHEMES:
        raise InputError(f"{base}: accepted are addresses that begin with {', '.join(f'{s}://' for s in SCHEMES)}.")
    folder.mkdir(parents=True, exist_ok=True)
    base, whole, part = base.rstrip("/") + "/", folder / name, folder / f"{name}.part"
    with _reported(base, name):
        expected = _sum_of(name, _text(base + SUMS), base)
    if whole.exists():
        if _sum(whole, progress) == expected:
            return whole
        raise InputError(f"{whole} is there and is not the published file. Move it away, and run the command again.")
    total: int | None = None
    with _reported(base, name):
        stream = _opened(base + name, part.stat().st_size if part.exists() else 0)
        total, done = stream.total, stream.first
        with contextlib.closing(stream.blocks), part.open("r+b" if part.exists() else "wb") as file:
            file.truncate(stream.first)
            file.seek(stream.first)
            for block in stream.blocks:
                file.write(block)
                done += len(block)
                progress(Update(f"downloading {name}", done, total))
    if total is not None and done < total:
        raise InputError(
            f"{name}: the connection ended after {done:,} of {total:,} bytes. Run the same command again: it goes on."
        )
    found = _sum(part, progress)
    if found != expected:
        part.unlink()
        raise InputError(
            f"{name}: SHA-512 is {found[:16]}..., and {expected[:16]}... is published. The file was damaged on its way "
            "and is removed; run the same command again."
        )
    part.replace(whole)
    return whole


@contextlib.contextmanager
def _reported(base: str, name: str) -> Iterator[None]:
    """Say what failed and what to do; what came before stays."""
    try:
        yield
    except _FAILURES as error:
        reason = printable(" ".join(str(getattr(error, "reason", error)).split())) or type(error).__name__
        server = urlsplit(base).hostname or base
        raise InputError(
            f"{name}: {server} cannot be read ({reason}). Run the same command again: it goes on where it ended. "
            "Without a network here, download the file on another machine (doi:10.14459/2019mp1507656) and give its "
            "path, as in train-source --oe62 FILE."
        ) from error


def _sum_of(name: str, text: str, base: str) -> str:
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found and found[2].rpartition("/")[2] == name:
            return found[1].lower()
    raise InputError(f"{name} is not in {SUMS} of {urlsplit(base).hostname}. Is the address that of the data set?")


def _sum(path: Path, progress: Progress) -> str:
    digest, done, total = hashlib.sha512(), 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            progress(Update(f"checking {path.name.removesuffix('.part')}", done, total))
    return digest.hexdigest()


def _text(url: str) -> str:
    data = b""
    stream = _opened(url, 0)
    with contextlib.closing(stream.blocks):
        for block in stream.blocks:
            data += block
            if len(data) > _MOST_SUMS:
                break
    return data.decode("utf-8", errors="replace")


def _opened(url: str, first: int) -> _Stream:
    return _by_ftp(url, first) if urlsplit(url).scheme == "ftp" else _by_http(url, first)


def _by_http(url: str, first: int) -> _Stream:
    """Open from byte `first` on where the server can; one that cannot, or has no more bytes, begins anew."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={first}-"} if first else {})
    try:
        answer = urllib.request.urlopen(request, timeout=_WAIT_S)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not first:
            raise
        error.close()
        return _by_http(url, 0)
    first = first if answer.status == 206 else 0
    length = answer.headers.get("Content-Length")

    def blocks() -> Generator[bytes, None, None]:
        with answer:
            while block := answer.read1(_BLOCK):
                yield block

    return _Stream(first, first + int(length) if length and length.isdigit() else None, blocks())


def _by_ftp(url: str, first: int) -> _Stream:
    place = urlsplit(url)
    path = unquote(place.path).lstrip("/")
    server = ftplib.FTP(timeout=_WAIT_S)
    try:
        server.connect(place.hostname or "", place.port or ftplib.FTP_PORT)
        server.login(unquote(place.username or ""), unquote(place.password or ""))
        server.voidcmd("TYPE I")
        total = server.size(path)
    except _FAILURES:
        server.close()
        raise
    first = first if total is None or first < total else 0

    def blocks() -> Generator[bytes, None, None]:
        with server, server.transfercmd(f"RETR {path}", first or None) as connection:
            while block := connection.recv(_BLOCK):
                yield block

    return _Stream(first, total, blocks())
