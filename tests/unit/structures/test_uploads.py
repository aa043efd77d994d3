"""Uploads that crash, occupy or fill their reader are refused one by one; the others are read."""

import os
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bandgap.foundation import children
from bandgap.structures import DEFAULT_LIMITS, StructureRecord, read_structures, uploads
from bandgap.structures.reading import Part
from bandgap.structures.uploads import items_of, read_upload, records_of_child
from tests.unit.structures.hostile_inputs import INPUTS, cif, measure, packed_zip
from tests.unit.structures.samples import METHANE_XYZ

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
STRUCTURE_S = 0.02  # of the largest structure of a legal file


@pytest.fixture(autouse=True)
def _new_children() -> Iterator[None]:
    """End the children that wait before and after each test."""
    children.end_waiting()
    yield
    children.end_waiting()


def loop_forever() -> None:
    """Use CPU time without end."""
    while True:
        pass


def use_much_memory() -> None:
    """Need more memory than the limit."""
    bytearray(400_000_000)


def crash() -> None:
    """End this process by a fault."""
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep_long() -> None:
    """Wait without using CPU time."""
    time.sleep(60)


def use_some_time() -> None:
    """Use 10 ms of CPU time."""
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass


def bad_items(
    data: bytes, *, path: str, name: str, n_skipped: int, names: list[str], behaviour: str
) -> Iterator[Any]:
    """Yield one structure for each name, after calling a function for the name "bad.cif"."""

    def records_of(name: str) -> Iterator[StructureRecord]:
        if name.endswith("bad.cif"):
            globals()[behaviour]()
        yield from read_structures(data, name)

    return items_of((Part(name, records_of(name)) for name in names), n_skipped)


def slow_items(data: bytes, *, path: str, name: str, n_skipped: int, n: int) -> Iterator[Any]:
    """Yield structures that take 10 ms of CPU time each."""

    def records() -> Iterator[StructureRecord]:
        for _ in range(n):
            use_some_time()
            yield from read_structures(data, name)

    return items_of([Part(name, records())], n_skipped)


def read_by(
    behaviour: Callable[[], None], *, names: tuple[str, ...] = ("bad.cif",)
) -> list[StructureRecord]:
    """Return the records of files whose reader calls `behaviour` for the name "bad.cif"."""
    name = "a.zip" if len(names) > 1 else names[0]
    arguments = {"names": list(names), "behaviour": behaviour.__name__}
    return list(records_of_child(bad_items, cif("3.5"), name, **arguments))


@pytest.mark.parametrize(
    "behaviour", [loop_forever, use_much_memory, crash, sleep_long], ids=lambda f: f.__name__
)
def test_file_that_ends_its_reader_or_its_time_is_refused(
    behaviour: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "SECONDS", 0.2)
    (record,) = read_by(behaviour)
    assert (record.file, record.status) == ("bad.cif", "refused")
    assert record.problem == (
        "reading was stopped. Reading takes more than 0.2 s or 300 MB of memory, the limits, or"
        " damaged data end it. Give a smaller file, or write it again."
    )


def test_other_files_of_an_archive_are_read_when_one_ends_its_reader() -> None:
    records = read_by(crash, names=("1.cif", "bad.cif", "2.cif", "3.cif"))
    assert [(r.file, r.status) for r in records] == [
        ("1.cif", "warning"),
        ("bad.cif", "refused"),
        ("2.cif", "warning"),
        ("3.cif", "warning"),
    ]


def test_archive_is_given_up_after_three_files_that_end_their_reader() -> None:
    names = ("0/bad.cif", "1/bad.cif", "1.cif", "2/bad.cif", "3/bad.cif", "2.cif")
    records = read_by(crash, names=names)
    assert [r.file for r in records] == [*names[:4], "a.zip"]
    assert "the remaining files of the archive were not read" in records[-1].problem


def test_file_takes_as_long_as_it_gives_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 structures take 2 s at least, and the limit without a further one is 0.5 s."""
    monkeypatch.setattr(uploads, "SECONDS", 0.5)
    records = list(records_of_child(slow_items, cif("3.5"), "a.cif", n=200))
    assert len(records) == 200
    assert all(record.atoms is not None for record in records)


def test_structures_before_the_end_are_kept_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "SECONDS", 0.5)
    data = METHANE_XYZ.encode() * 3
    *records, last = records_of_child(
        bad_items, data, "a.zip", names=["1.xyz", "bad.cif"], behaviour="loop_forever"
    )
    assert [record.status for record in records] == ["ready"] * 3
    assert last.file == "bad.cif"


@pytest.mark.parametrize(("n_bytes", "seconds"), [(300, "10 s"), (2_000_000, "16 s")])
def test_time_of_a_file_grows_with_its_size(n_bytes: int, seconds: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cif"
    path.write_bytes(b"#" * n_bytes)
    records = records_of_child(bad_items, path, "a.cif", names=["bad.cif"], behaviour="crash")
    assert f"more than {seconds}" in next(records).problem


def facts_of(records: list[StructureRecord]) -> list[tuple[Any, ...]]:
    return [(r.id, r.file, r.format, r.problems, dict(r.info), r.content) for r in records]


def test_upload_gives_the_records_of_the_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.cif", cif("3.5", sites="C1 0 0 0\nC2 0.5 0.5 0.5\n"))
        archive.writestr("broken.cif", "data_x\n")
        archive.writestr("b.extxyz", '1\ngap_eV=1.5 name="a b" flag=T\nH 0 0 0\n')
        archive.writestr("\u00e4 b.xyz", METHANE_XYZ)
    data = (tmp_path / "a.zip").read_bytes()
    records = facts_of(read_structures(data, "u.zip"))
    assert len(records) == 4
    assert facts_of(list(read_upload(data, "u.zip"))) == records
    assert facts_of(list(read_upload(tmp_path / "a.zip", "u.zip"))) == records


def test_one_child_reads_many_uploads_and_is_replaced_when_it_was_killed() -> None:
    for _ in range(3):
        assert len(list(read_upload(METHANE_XYZ.encode(), "a.xyz"))) == 1
    (child,) = children._waiting
    child.kill()
    child.wait()
    assert len(list(read_upload(METHANE_XYZ.encode(), "a.xyz"))) == 1
    assert children._waiting != [child]


def test_child_ends_with_an_abandoned_reading() -> None:
    other_processes = set(psutil.Process().children())
    records = read_upload(METHANE_XYZ.encode() * 5_000, "a.xyz")
    next(records)
    records.close()  # type: ignore[attr-defined]
    assert children._waiting == []
    assert set(psutil.Process().children()) <= other_processes


def test_atoms_of_records_can_be_changed() -> None:
    (record,) = read_upload(cif("3.5"), "a.cif")
    assert record.atoms is not None
    record.atoms.positions += 1.0
    record.atoms.cell[0, 0] = 4.0
    assert record.atoms.positions[0, 0] == 1.0


def test_many_refused_structures_in_a_row_end_the_reading_of_a_file() -> None:
    records = read_structures(b"1\n\nQq 0 0 0\n" * 3_000, "a.xyz")
    assert len(records) == 1_001
    assert "the remaining structures were not read, because 1,000 in a row" in records[-1].problem


def test_archive_is_not_unpacked_beyond_its_ratio() -> None:
    data = packed_zip({f"{k}.cif": b"#" * 900_000 for k in range(100)})
    records = read_structures(data, "a.zip")
    n_opened = sum("no atoms" in record.problem for record in records)
    assert 900_000 * n_opened <= DEFAULT_LIMITS.max_compression_ratio * len(data) + 1_000_000
    assert "the remainder of the limit for the whole archive" in records[-1].problem


# Nesting, a number of structures, entities and compression; all other inputs run nightly.
QUICK_INPUTS = {
    "nested-lists.json",
    "billion-laughs-vasprun.xml",
    "bomb-vasprun.xml.gz",
}


@pytest.fixture(scope="module")
def start_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The CPU time in s of the interpreters and their imports: that of an input without content."""
    return measure("no-content-vasprun.xml", tmp_path_factory.mktemp("start"))[1]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK_INPUTS else pytest.mark.slow) for name in INPUTS],
)
def test_hostile_input_takes_little_beyond_its_structures_and_500_mb(
    name: str, start_s: float, tmp_path: Path
) -> None:
    text, seconds, peak_mb = measure(name, tmp_path)
    assert "Traceback" not in text
    n_read = int(text.partition(" read")[0].replace(",", "")) if " read" in text else 0
    assert seconds < 5.0 + 2 * start_s + STRUCTURE_S * n_read, text  # twice: other work slows it
    assert peak_mb < 500, text
