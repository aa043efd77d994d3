"""Files that are read block by block give what they give when they are facts_by_file."""

import gzip
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bandgap.structures import Limits, archives, contents, read_paths, read_structures
from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable
from bandgap.structures.reading import stream_paths
from bandgap.structures.texts import Text
from tests.unit.structures.samples import METHANE_XYZ, ase_db
from tests.unit.structures.test_archives import zipped
from tests.unit.structures.test_fuzz import MODELS, mutated

SMALL = Limits(max_atoms=100, max_structures=50, max_file_bytes=100_000, max_archive_bytes=200_000)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1")
NAMED = METHANE_XYZ.replace("methane", 'Properties=species:S:1:pos:R:3 id=m note="zw\u00f6lf"')
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe\0\0": "utf-32-le", b"\0\0\xfe\xff": "utf-32-be"}
MARKS |= {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def decoded_at_once(data: bytes) -> str | None:
    """The text of bytes that are facts_by_file, None where they are none."""
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, errors="replace")
            break
    else:
        try:
            if data.count(0) * 3 > len(data):
                order = "utf-16-le" if data[1::2].count(0) > data[::2].count(0) else "utf-16-be"
                text = data.decode(order, errors="replace")
            else:
                text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    if len(re.findall(r"[\x00-\x08\x0e-\x19\x1b-\x1f]", text)) > len(text) // 1000:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x1a", "")


def facts_of(records: Any) -> list[tuple[Any, ...]]:
    """Everything that records say but the folder of their file."""
    return [
        (
            r.id,
            Path(r.file).name,
            r.format,
            r.content,
            r.problems,
            [(k, repr(v)) for k, v in r.info.items()],
        )
        for r in records
    ]


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is small, and few bytes are read at once."""
    for module in (contents, archives):
        monkeypatch.setattr(module, "SMALL", 0)
        monkeypatch.setattr(module, "BLOCK", 61)


PIECES = st.sampled_from(
    [
        b"\r",
        b"\n",
        b"\r\n",
        b"\x1a",
        b"C 0 0 0",
        b"\xc3\xb6",
        b"\xff",
        b"\xe2\x82",
        b"\0",
        b"\xd8\0",
    ]
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.sampled_from([b"", *MARKS]),
    st.lists(PIECES | st.binary(max_size=3), max_size=30),
    st.integers(1, 9),
)
@example(b"", [b"\r", b"\n", b"\r", b"\x1a", b"\n"], 1)
@example(b"\xff\xfe", [b"\xd8\0\xdc", b"\n"], 1)
def test_text_decoded_in_blocks_equals_text_decoded_as_a_whole(
    mark: bytes, pieces: list[bytes], block: int
) -> None:
    data = mark + b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "BLOCK", block)
        try:
            text = Text(Content.of(data))
            joined_text = "\n".join(text)
        except Unreadable:
            assert decoded_at_once(data) is None
            return
        assert joined_text == text.read_all() == decoded_at_once(data)
        assert text.head(5) == joined_text[:5]


@pytest.mark.fuzz
def test_damaged_files_of_every_format_do_not_depend_on_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(5)
    files = [mutated(random) for _ in range(400)]
    sound = METHANE_XYZ + NAMED + MODELS
    for encoding in ENCODINGS:
        for end in ("\n", "\r\n", "\r"):
            for text in (
                NAMED * 3,
                METHANE_XYZ[:-30],
                NAMED.replace("5\n", "9\n") + NAMED,
                MODELS,
                " \n\n",
                sound,
            ):
                data = text.replace("\n", end).encode(encoding)
                files += [
                    (data, "a.xyz"),
                    (gzip.compress(data, mtime=0), "a.xyz.gz"),
                    (zipped({"a.xyz": data}), "z.zip"),
                ]
                files += [
                    (data[: random.randrange(len(data))], "a.pdb"),
                    (gzip.compress(data)[:-9], "a.xyz.gz"),
                ]
    facts_by_file = [facts_of(read_structures(data, name, limits=SMALL)) for data, name in files]
    for module in (contents, archives):
        monkeypatch.setattr(module, "SMALL", 0)
        monkeypatch.setattr(module, "BLOCK", 61)
    for (data, name), records in zip(files, facts_by_file, strict=True):
        path = tmp_path / (name.rpartition("/")[2].strip(".") or "unnamed")
        path.write_bytes(data)
        path_text = str(path) if name in ("a.xyz", "a.xyz.gz", "z.zip", "a.pdb") else ""
        assert facts_of(read_structures(data, name, limits=SMALL)) == records
        if path_text:
            assert facts_of(read_paths([path], limits=SMALL)) == records


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("versions", (b"\1\1", b"\2\2", b"\1\2", b"\xff\xff"), ids=repr)
def test_database_is_read_from_its_path_and_not_changed(tmp_path: Path, versions: bytes) -> None:
    path = tmp_path / "100% #1?mode=rw.db"
    data = bytearray(ase_db())
    data[18:20] = versions
    path.write_bytes(data)
    shutil.copy(path, f"{path}-wal")
    shutil.copy(path, f"{path}-journal")
    content_by_name = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert facts_of(read_paths([path])) == facts_of(read_structures(bytes(data), path.name))
    assert len(list(stream_paths([path]))) == 2
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == content_by_name


@pytest.mark.usefixtures("in_blocks")
def test_damaged_database_gets_the_same_verdict_from_path_and_bytes(tmp_path: Path) -> None:
    random = Random(3)
    data = ase_db()
    path = tmp_path / "a.db"
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(random.randrange(1, 6)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(
            damaged[: random.randrange(len(data))] if random.random() < 0.3 else damaged
        )
        assert facts_of(read_paths([path])) == facts_of(read_structures(path.read_bytes(), "a.db"))
