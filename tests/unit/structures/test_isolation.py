"""Files that crash, occupy or fill their reader are refused one by one; the others are read."""

import os
import signal
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bandgap.foundation.forks import can_fork
from bandgap.structures import (
    DEFAULT_LIMITS,
    StructureRecord,
    isolation,
    read_paths,
    read_structures,
    reader_process,
)
from bandgap.structures.isolation import read_isolated
from bandgap.structures.reading import Part, read_in_this_process, stream_paths
from tests.unit.structures.hostile_inputs import INPUTS, cif, measure, packed_zip
from tests.unit.structures.samples import METHANE_XYZ, POSCAR

pytestmark = pytest.mark.skipif(not can_fork(), reason="a fork of this process cannot read")
START_S = 1.5  # CPU time of the interpreter and its imports
STRUCTURE_S = 0.02  # of the largest structure of a legal file


@pytest.fixture(autouse=True)
def _new_processes() -> Iterator[None]:
    """Start each test without processes that wait, and end those that it started."""
    isolation._idle.clear()
    yield
    isolation._idle.clear()


def read_by(
    behaviour: Callable[[], object], *, names: tuple[str, ...] = ("a.cif",)
) -> list[StructureRecord]:
    """Return the records of files whose reader calls `behaviour` for the name "bad.cif"."""

    def records_of(name: str) -> Iterator[StructureRecord]:
        if name.endswith("bad.cif"):
            behaviour()
        yield from read_in_this_process(cif("3.5"), name)

    def parts_of(*_: object, **__: object) -> Iterator[Part]:
        for name in names:
            yield Part(name, 300, records_of(name), is_member=len(names) > 1)

    records = read_isolated(
        cif("3.5"), "a.zip", limits=DEFAULT_LIMITS, max_records=999, parts_of=parts_of
    )
    return list(records)


def loop_forever() -> None:
    """Use CPU time without end."""
    while True:
        pass


def test_file_that_takes_too_much_cpu_time_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_process, "CPU_S", 0.2)
    (record,) = read_by(loop_forever, names=("bad.cif",))
    assert (record.file, record.status) == ("bad.cif", "refused")
    assert record.problem == (
        "reading was stopped: it takes more than 0.2 s of CPU time, the limit for a file of 300"
        " bytes. Split the file, or export the structure again as CIF or extXYZ."
    )


def test_file_that_crashes_its_reader_is_refused():
    (record,) = read_by(lambda: os.kill(os.getpid(), signal.SIGSEGV), names=("bad.cif",))
    assert "its reader ended unexpectedly (signal 11)" in record.problem


def test_reader_that_the_system_ends_is_named_as_lack_of_memory():
    (record,) = read_by(lambda: os.kill(os.getpid(), signal.SIGKILL), names=("bad.cif",))
    assert "probably for lack of memory" in record.problem


def test_file_that_needs_too_much_memory_is_refused():
    (record,) = read_by(lambda: bytearray(400_000_000), names=("bad.cif",))
    assert record.problem.startswith("reading was stopped: it cannot be read (MemoryError")


def test_reader_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isolation, "_SLOW_S", 0.3)
    monkeypatch.setattr(isolation, "_SLOW_FACTOR", 0)
    (record,) = read_by(lambda: time.sleep(60), names=("bad.cif",))
    assert "its reader does not answer" in record.problem


def test_other_files_of_an_archive_are_read_when_one_ends_its_reader():
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    records = read_by(crash, names=("1.cif", "bad.cif", "2.cif", "3.cif"))
    assert [(r.file, r.status) for r in records] == [
        ("1.cif", "warning"),
        ("bad.cif", "refused"),
        ("2.cif", "warning"),
        ("3.cif", "warning"),
    ]


def test_archive_is_given_up_after_three_files_that_end_their_reader():
    names = ("0/bad.cif", "1/bad.cif", "1.cif", "2/bad.cif", "3/bad.cif", "2.cif")
    records = read_by(lambda: os.kill(os.getpid(), signal.SIGSEGV), names=names)
    assert [r.file for r in records] == [*names[:4], "a.zip"]
    assert "the remaining files of the archive were not read" in records[-1].problem


def test_archive_whose_files_together_take_too_long_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(reader_process, "CPU_S", 0.4)
    monkeypatch.setattr(reader_process, "TOTAL_FACTOR", 1)

    def use_time() -> None:
        end = time.process_time() + 0.25
        while time.process_time() < end:
            pass

    names = tuple(f"{k}/bad.cif" for k in range(6))
    records = read_by(use_time, names=names)
    assert records[-1].file == "a.zip"
    assert "took too much time for its size" in records[-1].problem
    assert 2 <= len(records) <= 4


def test_structures_before_the_end_of_the_time_are_kept_and_the_others_named(
    monkeypatch: pytest.MonkeyPatch,
):
    def records_of() -> Iterator[StructureRecord]:
        for _ in range(500):
            end = time.process_time() + 0.01
            while time.process_time() < end:
                pass
            yield from read_in_this_process(cif("3.5"), "a.cif")

    def parts_of(*_: object, **__: object) -> Iterator[Part]:
        yield Part("a.cif", 300, records_of())

    monkeypatch.setattr(reader_process, "CPU_S", 1.0)
    monkeypatch.setattr(reader_process, "TOTAL_FACTOR", 1)
    *records, last = read_isolated(
        cif("3.5"), "a.cif", limits=DEFAULT_LIMITS, max_records=999, parts_of=parts_of
    )
    assert 2 <= len(records) <= 90
    assert all(record.atoms is not None for record in records)
    assert last.problem == (
        f"the structures after the first {len(records)} were not read: these took as much CPU time"
        " as a file of 300 bytes may take. Unpack it if it is packed, or split it into files with"
        " fewer structures."
    )


@pytest.mark.parametrize(
    ("n_bytes", "seconds"),
    [(300, 10.0), (1_000_000, 10.0), (2_000_000, 16.0), (1_500_000, 13.0), (50_000_000, 304.0)],
)
def test_time_of_a_file_grows_with_its_size(n_bytes: int, seconds: float):
    assert reader_process.cpu_limit_s(n_bytes) == pytest.approx(seconds)


def slow_records(n: int, *, is_readable: bool) -> Iterator[StructureRecord]:
    """Yield records of structures that take 10 ms of CPU time each."""
    text = cif("3.5") if is_readable else b"data_x\n"
    for _ in range(n):
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        yield from read_in_this_process(text, "a.cif")


@pytest.mark.parametrize("is_readable", [True, False], ids=["structures", "refused ones"])
def test_file_takes_longer_only_where_it_gives_structures(
    is_readable: bool, monkeypatch: pytest.MonkeyPatch
):
    """300 structures take 3 s at least. Without structures, the file has 0.5 s."""

    def parts_of(*_: object, **__: object) -> Iterator[Part]:
        yield Part("a.cif", 300, slow_records(300, is_readable=is_readable))

    monkeypatch.setattr(reader_process, "CPU_S", 0.5)
    records = list(
        read_isolated(
            cif("3.5"), "a.cif", limits=DEFAULT_LIMITS, max_records=999, parts_of=parts_of
        )
    )
    if is_readable:
        assert len(records) == 300
        assert all(record.atoms is not None for record in records)
    else:
        assert len(records) < 100
        assert "it takes more than 0.5 s of CPU time" in records[-1].problem


def test_good_files_next_to_a_damaged_one_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_process, "CPU_S", 1.0)
    (tmp_path / "a.cif").write_bytes(cif("3.5"))
    (tmp_path / "b.cif").write_bytes(INPUTS["long-operator.cif"]())
    (tmp_path / "c.xyz").write_text(METHANE_XYZ)
    records = read_paths(tmp_path)
    assert [record.status for record in records] == ["warning", "refused", "ready"]


def test_one_process_reads_many_files(tmp_path: Path):
    for k in range(5):
        (tmp_path / f"{k}.xyz").write_text(METHANE_XYZ)
    assert len(read_paths(tmp_path)) == 5
    (reader,) = isolation._idle
    assert len(read_structures(POSCAR.encode(), "POSCAR")) == 1
    assert isolation._idle == [reader]


def test_new_interpreter_gives_the_records_of_a_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.cif", cif("3.5", sites="C1 0 0 0\nC2 0.5 0.5 0.5\n"))
        archive.writestr("broken.cif", "data_x\n")
    (tmp_path / "b.extxyz").write_text('1\ngap_eV=1.5 name="a b" flag=T\nH 0 0 0\n')
    (tmp_path / "\u00e4 b.xyz").write_text(METHANE_XYZ)
    forked = read_paths(tmp_path)
    isolation._idle.clear()
    monkeypatch.setattr(isolation, "_is_fork_safe", lambda: False)
    spawned = read_paths(tmp_path)
    facts = [
        [(r.id, r.file, r.format, r.problems, dict(r.info), r.content) for r in records]
        for records in (forked, spawned)
    ]
    assert facts[0] == facts[1]
    assert len(forked) == 4


def test_atoms_of_records_can_be_changed():
    (record,) = read_structures(cif("3.5"), "a.cif")
    assert record.atoms is not None
    record.atoms.positions += 1.0
    record.atoms.cell[0, 0] = 4.0
    assert record.atoms.positions[0, 0] == 1.0


def test_relative_path_is_read_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.xyz").write_text(METHANE_XYZ)
    (tmp_path / "x.xyz").write_text("1\n\nH 0 0 0\n")
    monkeypatch.chdir(tmp_path)
    assert read_paths("x.xyz")[0].n_atoms == 1
    monkeypatch.chdir(tmp_path / "a")
    assert read_paths("x.xyz")[0].n_atoms == 5
    assert read_paths("x.xyz")[0].file == "x.xyz"


def test_process_ends_with_an_abandoned_reading(tmp_path: Path):
    (tmp_path / "a.xyz").write_text(METHANE_XYZ * 5_000)
    other_processes = set(psutil.Process().children())
    records = stream_paths(tmp_path / "a.xyz")
    next(records)
    records.close()  # type: ignore[attr-defined]
    assert isolation._idle == []
    assert set(psutil.Process().children()) <= other_processes


def test_process_that_was_killed_while_it_waited_is_replaced():
    assert len(read_structures(METHANE_XYZ.encode(), "a.xyz")) == 1
    isolation._idle[0]._process.kill()
    isolation._idle[0]._process.wait()
    assert len(read_structures(METHANE_XYZ.encode(), "a.xyz")) == 1


def test_many_refused_structures_in_a_row_end_the_reading_of_a_file():
    records = read_structures(b"1\n\nQq 0 0 0\n" * 3_000, "a.xyz")
    assert len(records) == 1_001
    assert "the remaining structures were not read, because 1,000 in a row" in records[-1].problem


def test_archive_is_not_unpacked_beyond_its_ratio():
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


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK_INPUTS else pytest.mark.slow) for name in INPUTS],
)
def test_hostile_input_takes_little_beyond_its_structures_and_500_mb(name: str, tmp_path: Path):
    text, seconds, peak_mb = measure(name, tmp_path)
    assert "Traceback" not in text
    n_read = int(text.partition(" read")[0].replace(",", "")) if " read" in text else 0
    assert seconds < 5.0 + START_S + STRUCTURE_S * n_read, text
    assert peak_mb < 500, text


def test_process_does_not_hold_pipes_of_this_one_open():
    end, other_end = os.pipe()
    os.set_blocking(end, False)
    assert len(read_structures(METHANE_XYZ.encode(), "a.xyz")) == 1
    assert isolation._idle
    os.close(other_end)
    assert os.read(end, 1) == b""  # raises BlockingIOError while another process has the pipe
    os.close(end)
