"""Download published data sets, resume interrupted downloads, and check their checksums.

OE62 is at doi:10.14459/2019mp1507656, on a server for FTP and rsync, with a list SHA512sums of its
files. User and password are both m1507656, as its page states.
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
SUMS = "SHA512sums"
SCHEMES = ("ftp", "http", "https")
_BLOCK = 1 << 20
_TIMEOUT_S = 60.0
_MAX_SUMS_BYTES = 1_000_000
_LINE = re.compile(r"([0-9a-fA-F]{128})\s+\*?(?:\./)?(\S.*)")
_FAILURES = (urllib.error.URLError, http.client.HTTPException, OSError, EOFError, ftplib.Error)


@dataclass(frozen=True)
class _Stream:
    """The bytes of a file from position `first`.

    `total` is the length of the whole file, None if the server does not report it.
    """

    first: int
    total: int | None
    blocks: Generator[bytes, None, None]


def fetch(name: str, folder: Path, *, base: str = OE62, progress: Progress = no_progress) -> Path:
    """Download a file that `SHA512sums` on the server lists, and return its path.

    Parameters
    ----------
    name
        Name of the file.
    folder
        Folder of the download. A complete file in it is not downloaded again. An incomplete one,
        NAME.part, is resumed.
    base
        Address of the folder on the server: ftp, http or https.
    progress
        Called after every block.

    Raises
    ------
    InputError
        If the server cannot be reached, if the download ends early (the incomplete file is kept),
        or if the checksum differs (the file is removed). The message says what to do.
    """
    if urlsplit(base).scheme not in SCHEMES:
        raise InputError(
            f"{base}: accepted are addresses that begin with"
            f" {', '.join(f'{s}://' for s in SCHEMES)}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    base = base.rstrip("/") + "/"
    target = folder / name
    part = folder / f"{name}.part"
    with _network_errors(base, name):
        expected = _published_sha512(name, _text(base + SUMS), base)
    if target.exists():
        if _sha512(target, progress) == expected:
            return target
        raise InputError(
            f"{target} exists and is not the published file. Move it away, and run the command"
            " again."
        )
    total: int | None = None
    with _network_errors(base, name):
        stream = _open(base + name, part.stat().st_size if part.exists() else 0)
        total = stream.total
        n_bytes = stream.first
        with contextlib.closing(stream.blocks), part.open("r+b" if part.exists() else "wb") as file:
            file.truncate(stream.first)
            file.seek(stream.first)
            for block in stream.blocks:
                file.write(block)
                n_bytes += len(block)
                progress(Update(f"downloading {name}", n_bytes, total))
    if total is not None and n_bytes < total:
        raise InputError(
            f"{name}: the connection ended after {n_bytes:,} of {total:,} bytes. Run the same"
            " command again: it resumes."
        )
    checksum = _sha512(part, progress)
    if checksum != expected:
        part.unlink()
        raise InputError(
            f"{name}: SHA-512 is {checksum[:16]}..., and {expected[:16]}... is published. The file"
            " was damaged on its way and is removed; run the same command again."
        )
    part.replace(target)
    return target


@contextlib.contextmanager
def _network_errors(base: str, name: str) -> Iterator[None]:
    """Convert errors of the network to InputError with the reason and what to do."""
    try:
        yield
    except _FAILURES as error:
        reason = (
            printable(" ".join(str(getattr(error, "reason", error)).split()))
            or type(error).__name__
        )
        server = urlsplit(base).hostname or base
        raise InputError(
            f"{name}: {server} cannot be read ({reason}). Run the same command again: it resumes"
            " where it ended. Without a network here, download the file on another machine"
            " (doi:10.14459/2019mp1507656) and give its path, as in train-source --oe62 FILE."
        ) from error


def _published_sha512(name: str, text: str, base: str) -> str:
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match and match[2].rpartition("/")[2] == name:
            return match[1].lower()
    raise InputError(
        f"{name} is not in {SUMS} of {urlsplit(base).hostname}. Is the address that of the data"
        " set?"
    )


def _sha512(path: Path, progress: Progress) -> str:
    digest = hashlib.sha512()
    n_bytes = 0
    total = path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            n_bytes += len(block)
            progress(Update(f"checking {path.name.removesuffix('.part')}", n_bytes, total))
    return digest.hexdigest()


def _text(url: str) -> str:
    data = b""
    stream = _open(url, 0)
    with contextlib.closing(stream.blocks):
        for block in stream.blocks:
            data += block
            if len(data) > _MAX_SUMS_BYTES:
                break
    return data.decode("utf-8", errors="replace")


def _open(url: str, first: int) -> _Stream:
    return _by_ftp(url, first) if urlsplit(url).scheme == "ftp" else _by_http(url, first)


def _by_http(url: str, first: int) -> _Stream:
    """Open a file from byte `first`.

    If the server cannot do this, or has no more bytes, the file is opened from its beginning.
    """
    request = urllib.request.Request(url, headers={"Range": f"bytes={first}-"} if first else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416 or not first:
            raise
        return _by_http(url, 0)
    first = first if response.status == 206 else 0
    length = response.headers.get("Content-Length")

    def blocks() -> Generator[bytes, None, None]:
        with response:
            while block := response.read1(_BLOCK):
                yield block

    return _Stream(first, first + int(length) if length and length.isdigit() else None, blocks())


def _by_ftp(url: str, first: int) -> _Stream:
    address = urlsplit(url)
    path = unquote(address.path).lstrip("/")
    server = ftplib.FTP(timeout=_TIMEOUT_S)
    try:
        server.connect(address.hostname or "", address.port or ftplib.FTP_PORT)
        server.login(unquote(address.username or ""), unquote(address.password or ""))
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
