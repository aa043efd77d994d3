"""Random damage to files (mutations), reproducible by a seed and a number.

`BANDGAP_MUTATION_SEED` sets the seed of all mutations. `BANDGAP_MUTATION` runs only the mutation
with that number.
"""

import gzip
import io
import os
import random
import re
import secrets
import signal
import sys
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

# Limit of CPU time, which hardly depends on the load. A mutation takes milliseconds.
LIMIT_S = 5.0
QUICK_SEED = 18
_MAX_FAILURES = 10  # Number of failures in the message of a test.
_MAX_ADDED_BYTES = 1_000_000  # By one change.
# Text of Python that a message for users must not have.
_PYTHON_TEXT = re.compile(
    r"cannot be read as|Traceback|\b[A-Z]\w+(?:Error|Exception|Warning)\b| object at 0x|<class "
    r"|array\(|np\.float|\(b['\"]"
)

_NUMBER = re.compile(rb"(?<![\w.])[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
_TOKEN = re.compile(rb"[^\s,;:\"']+")
EXTREMES = [
    b"0", b"-1", b"1", b"-0.0", b"1e308", b"-1e308", b"1e999", b"nan", b"-nan", b"inf", b"-inf",
    b"1e-320", b"1e200", b"-1e200", b"1e154", b"1e103", b"1e20", b"1e16", b"1e9", b"99999",
    b"100000", b"1e-5", b"1e-160", b"1.0D300", b"1.0*^99", b"9" * 400, b"9" * 5000,
    b"0." + b"3" * 400, b"1_000", b"0x1F", b"1e", b"--1", b"1.2.3", b"4,2", b"007",
    "\u0663".encode(), "\u00b2".encode(), b"180", b"179.9999", b"90.0001", b"2147483648",
    b"18446744073709551616",
]  # fmt: skip
TOKENS = [
    b"", b"'", b'"', b";", b"=", b"#", b"!", b"?", b".", b"*", b"{", b"}", b"[", b"]", b"[[",
    b"null", b"true", b"T", b"F", b"H", b"D", b"C", b"Xx", b"q", b"Zz", b"loop_", b"data_x",
    b"data_", b"save_x", b"_atom_site_fract_x", b"_atom_site_label", b"x,y,z", b"-x,-y,-z",
    b"x+1/3,y,z", b"x/y", b"P 21/c", b"R -3 m", b"lattice_vector", b"atom_frac", b"atom", b"empty",
    b"CRYST1", b"MODEL", b"ENDMDL", b"HETATM", b"SFAC", b"LATT", b"PART", b"=\n", b"END", b"Direct",
    b"Cartesian", b"Selective", b"Lattice", b'Lattice="', b"Properties=", b"pbc=T", b"id", b"gap",
    b"gap_eV", b"meV", b"Hartree", b"NaN", b"Infinity", b"-Infinity", b"\\u0000", b"\\", b"\xff",
    b"\x1b[2J", b"\t", b"\n", b"\n\n", "\u00e9".encode(), "\u202e".encode(), "\U0001f600".encode(),
    b"%s%n", b"<b>", b"$x^2$", b"../../etc/passwd",
]  # fmt: skip

Random = random.Random
Change = Callable[[Random, bytes, Sequence[bytes]], bytes]


class TooSlow(BaseException):
    """A mutation took longer than the limit. It is no Exception, so that no code catches it."""


def run_mutations(
    check: Callable[[Random], object], *, count: int, fresh: bool, capsys: Any
) -> None:
    """Call `check` with the generator of each mutation, and fail with all exceptions and warnings.

    The seed is `BANDGAP_MUTATION_SEED`, or a new one if `fresh`. It is printed.
    """
    seed_text = os.environ.get("BANDGAP_MUTATION_SEED")
    seed = int(seed_text) if seed_text else secrets.randbelow(10**9) if fresh else QUICK_SEED
    number_text = os.environ.get("BANDGAP_MUTATION")
    with capsys.disabled():
        sys.stdout.write(f" [{count:,} mutations of seed {seed}] ")
    faults = []
    n_faults = 0
    for number in [int(number_text)] if number_text else range(count):
        try:
            with time_limit(LIMIT_S):
                check(Random(f"{seed}-{number}"))
        except (Exception, TooSlow):
            n_faults += 1
            variables = f"BANDGAP_MUTATION_SEED={seed} BANDGAP_MUTATION={number}"
            faults.append(f"{variables}:\n{traceback.format_exc(-3)}")
    if faults:
        text = "\n".join(faults[:_MAX_FAILURES])
        pytest.fail(f"{n_faults} of {count:,} mutations:\n{text}", pytrace=False)


def assert_sentence(text: str) -> None:
    """Fail if a message for users has no words, or text of Python."""
    assert len(text) >= 10 and len(text.split()) >= 3, text
    assert text.isprintable(), text
    assert not _PYTHON_TEXT.search(text), text


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow if the block takes more than `seconds` of CPU time."""

    def stop(*_: object) -> None:
        raise TooSlow(f"not done after {seconds:g} s")

    started = time.process_time()
    # Without SIGPROF, as on Windows, the time is checked only at the end.
    has_alarm = hasattr(signal, "SIGPROF")
    if has_alarm:
        previous_handler = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        if has_alarm:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, previous_handler)
    if time.process_time() - started > seconds:
        stop()


def damaged(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    """Return `data` after one to four changes, which may copy pieces of `other_files`."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(CHANGES)(rng, data, other_files)
    return rng.choice(ENCODINGS)(rng, data) if rng.random() < 0.1 else data


def wrapped(rng: Random, data: bytes, name: str) -> tuple[bytes, str]:
    """Return the file compressed, and often damaged again, and its new name."""
    name = name or "x"
    kind = rng.choice(("gz", "zip", "lie", "nested", "bomb"))
    if kind == "gz":
        data = gzip.compress(data, 1, mtime=0)
        name = rng.choice((f"{name}.gz", name))
    else:
        members = {
            rng.choice((name, f"a/{name}", "../x", "/x.cif", "a\x00b", "x.gz")): data,
            "b.cif": data[: len(data) // 2],
        }
        if kind == "nested":
            members["c.zip"] = _zip({"d.zip": _zip({name: data})})
        if kind == "bomb":
            members = {f"{k}.xyz": bytes(3_000_000) for k in range(2)}
        data = _zip(
            members,
            rng.choice(
                (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
            ),
        )
        if kind == "lie":
            data = _lie(rng, data)
        name = rng.choice(("a.zip", "a.zip", "a", name))
    return (rng.choice(BYTES)(rng, data, [data]) if rng.random() < 0.5 else data), name


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for member, content in members.items():
            archive.writestr(
                zipfile.ZipInfo(member) if method == zipfile.ZIP_STORED else member, content
            )
    return buffer.getvalue()


def _lie(rng: Random, data: bytes) -> bytes:
    """Overwrite sizes, flags, methods or offsets of an entry of a zip archive."""
    entry = data.find(b"PK\x01\x02")
    field, width = rng.choice(
        ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (38, 4), (42, 4))
    )
    value = rng.choice((0, 1, 8, 99, 2**16 - 1, 2**31, 2**32 - 1, rng.getrandbits(32)))
    return (
        data[: entry + field] + value.to_bytes(4, "little")[:width] + data[entry + field + width :]
    )


def _span(rng: Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 10, 100, 1000)))


def _flip(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 30)) if data else 0):
        changed[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(changed)


def _delete(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _double(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 20)) + data[end:]


def _splice(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    other = rng.choice(other_files)
    start, end = _span(rng, other)
    position = rng.randrange(len(data) + 1)
    return data[:position] + (
        other[start:end] + data[position:] if rng.random() < 0.5 else other[start:]
    )


def _cut(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _lines(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    """Swap, drop, repeat or shuffle lines."""
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    j = rng.randrange(len(lines))
    kind = rng.choice(("swap", "drop", "repeat", "many", "shuffle", "thin"))
    if kind == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == "drop":
        del lines[i]
    elif kind == "repeat":
        lines.insert(j, lines[i])
    elif kind == "many":
        lines[i:i] = [lines[i]] * min(
            rng.choice((2, 50, 1500)), _MAX_ADDED_BYTES // (1 + len(lines[i]))
        )
    elif kind == "shuffle":
        rng.shuffle(lines)
    else:
        lines = [line for line in lines if rng.random() > 0.2]
    return b"\n".join(lines)


def _replaced(
    rng: Random, data: bytes, pattern: re.Pattern[bytes], values: Sequence[bytes]
) -> bytes:
    places = list(pattern.finditer(data))
    if not places:
        return data
    count = rng.choice((1, 1, 1, 2, 3, len(places) // 3, len(places)))
    selected = sorted(
        rng.sample(places, min(max(count, 1), len(places))), key=lambda match: match.start()
    )
    value = rng.choice(values)
    parts = []
    end = 0
    for match in selected:
        parts += [data[end : match.start()], value]
        end = match.end()
        value = value if rng.random() < 0.5 else rng.choice(values)
    return b"".join([*parts, data[end:]])


def _numbers(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    return _replaced(rng, data, _NUMBER, EXTREMES)


def _tokens(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    return _replaced(rng, data, _TOKEN, [*TOKENS, *EXTREMES])


def _nudge(rng: Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    """Replace numbers by others of the file: atoms at one place, thin cells, wrong counts."""
    numbers = _NUMBER.findall(data)
    values = [
        *rng.sample(numbers, min(4, len(numbers))),
        b"%.3g" % rng.uniform(-2, 2),
        b"%d" % rng.randrange(20),
    ]
    return _replaced(rng, data, _NUMBER, values)


def _utf16(rng: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", errors="replace")
    return text.encode(
        rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7"))
    )


def _latin1(rng: Random, data: bytes) -> bytes:
    return data.replace(b"e", "\u00e9".encode("latin-1"), rng.choice((1, 5, -1)))


def _nul(rng: Random, data: bytes) -> bytes:
    position = rng.randrange(len(data) + 1)
    return data[:position] + b"\x00" * rng.choice((1, 4, 5000)) + data[position:]


def _ends(rng: Random, data: bytes) -> bytes:
    return data.replace(
        b"\n", rng.choice((b"\r\n", b"\r", b"\x1a\n", b"\x0b", b"\xc2\x85", b"\xe2\x80\xa8", b""))
    )


BYTES: tuple[Change, ...] = (_flip, _delete, _double, _splice, _cut)
CHANGES: tuple[Change, ...] = (
    *BYTES,
    _lines,
    _lines,
    _numbers,
    _numbers,
    _numbers,
    _tokens,
    _tokens,
    _nudge,
    _nudge,
)
ENCODINGS: tuple[Callable[[Random, bytes], bytes], ...] = (_utf16, _latin1, _nul, _ends)
