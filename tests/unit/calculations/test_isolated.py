"""Outputs of calculations are read in a process with limits, and hostile ones stop no others."""

import gzip
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bandgap.calculations import read_calculations, read_sources
from bandgap.calculations import records as calculation_records
from bandgap.foundation.forks import can_fork
from bandgap.structures import isolation, reader_process
from tests.unit.calculations.espresso_text import espresso
from tests.unit.calculations.vasprun_text import vasprun
from tests.unit.structures.hostile_inputs import billion_laughs

pytestmark = pytest.mark.skipif(not can_fork(), reason="a fork of this process cannot read")

AIMS = "\n\n          Invoking FHI-aims ...\n\n  When using FHI-aims, please cite\n"
CRYSTAL = f" {'*' * 79}\n *{' ' * 77}*\n *{'CRYSTAL17'.center(77)}*\n"
PWSCF = "\n     Program PWSCF v.7.2 starts on 27Nov2026 at 10: 0: 0\n"


@pytest.fixture(autouse=True)
def _new_processes() -> Iterator[None]:
    """Start each test without processes that wait, and end those that it started."""
    isolation._idle.clear()
    yield
    isolation._idle.clear()


def _end_reader_of(monkeypatch: pytest.MonkeyPatch, behaviour: Callable[[], object]) -> None:
    """Let the process that reads call `behaviour` for files whose name contains "bad"."""
    record_of = calculation_records._record

    def read(content: object, name: str, *arguments: object, **options: object) -> object:
        if "bad" in name:
            behaviour()
        return record_of(content, name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(calculation_records, "_record", read)


def _write(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "vasprun.xml").write_text(vasprun())


def test_file_that_ends_its_reader_has_one_line_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _end_reader_of(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGSEGV))
    _write(tmp_path, ("a", "bad", "c"))
    results = read_calculations([tmp_path])
    assert [(r.record.id, r.is_usable) for r in results] == [
        ("a", True),
        ("bad", False),
        ("c", True),
    ]
    assert results[1].record.problem == (
        "reading was stopped: its reader ended unexpectedly (signal 11), which only a damaged file,"
        " or one that needs too much memory, should cause. Give the output of a calculation at one"
        " structure (NSW = 0, or calculation = 'scf'), or copy the file again from where it was"
        " made."
    )


def test_file_that_takes_too_much_cpu_time_has_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop() -> None:
        while True:
            pass

    monkeypatch.setattr(reader_process, "CPU_S", 0.3)
    _end_reader_of(monkeypatch, loop)
    _write(tmp_path, ("a", "bad", "c"))
    usable = [r.is_usable for r in read_calculations([tmp_path])]
    assert usable == [True, False, True]


def test_file_that_needs_too_much_memory_has_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _end_reader_of(monkeypatch, lambda: bytearray(400_000_000))
    _write(tmp_path, ("bad", "c"))
    results = read_calculations([tmp_path])
    assert [r.is_usable for r in results] == [False, True]
    assert "needs more memory" in results[0].record.problem


def test_member_of_an_archive_that_ends_its_reader_keeps_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _end_reader_of(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGSEGV))
    path = tmp_path / "batch.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a", "bad", "c"):
            archive.writestr(f"runs/{name}/vasprun.xml", vasprun())
    results = read_calculations([path])
    assert [(r.record.id, r.is_usable) for r in results] == [
        ("runs-a", True),
        ("runs-bad", False),
        ("runs-c", True),
    ]


def test_new_interpreter_gives_the_results_of_a_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, ("a", "b"))
    (tmp_path / "b" / "vasprun.xml").write_text(espresso())
    (tmp_path / "unconverged.vasprun.xml").write_text(vasprun(n_steps=60, last_change=0.1))
    forked = read_calculations([tmp_path], keep_unconverged=True)
    isolation._idle.clear()
    monkeypatch.setattr(isolation, "_is_fork_safe", lambda: False)
    spawned = read_calculations([tmp_path], keep_unconverged=True)
    facts = [
        [
            (r.record.id, r.record.problems, r.record.content, r.gap_eV, r.kind, r.level_of_theory)
            for r in results
        ]
        for results in (forked, spawned)
    ]
    assert facts[0] == facts[1]
    assert [r.is_usable for r in forked] == [True] * 3
    (unconverged,) = [r for r in read_calculations([tmp_path]) if not r.is_usable]
    assert unconverged.record.id == "unconverged"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (billion_laughs(), "DOCTYPE"),
        (b"<modeling>" + b"<i>" * 200_000, "nested too deep"),
        (b"<modeling>" + b"<a><b>" * 200_000 + b"</b></a>" * 200_000, "nested too deep"),
        (b"<modeling><i a='" + b"1" * 2_000_000 + b"'/></modeling>", "tag has more than 1 MB"),
        (
            b"<modeling>" + b"".join(b"<i a%d='1'>" % k for k in range(9)) + b"</modeling>",
            "damaged in line 1",
        ),
        (gzip.compress(b"<modeling>" + b" " * 100_000_000), "MB after decompression"),
        (gzip.compress(gzip.compress(vasprun().encode())), "gzipped twice"),
        (b"<modeling>\xff\xfe</modeling>", "damaged in line 1"),
    ],
    ids=[
        "billion laughs", "deep", "deep and closed", "long attribute", "unclosed", "gzip bomb",
        "gzipped twice", "bytes",
    ],
)  # fmt: skip
def test_hostile_xml_has_one_line_with_the_reason_and_the_others_are_read(
    tmp_path: Path, content: bytes, words: str
) -> None:
    _write(tmp_path, ("a", "b", "c"))
    (tmp_path / "b" / "vasprun.xml").write_bytes(content)
    results = read_calculations([tmp_path])
    assert [r.is_usable for r in results] == [True, False, True]
    assert words in results[1].record.problem
    assert "\n" not in results[1].record.problem


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("aims.out", AIMS, "an output of FHI-aims is not read: by default it lists"),
        ("job.crystal", CRYSTAL, "an output of CRYSTAL is not read: no reader of its eigenvalues"),
        ("scf.out", PWSCF, "a text output of Quantum ESPRESSO is not read"),
        ("OUTCAR", " vasp.6.4.1 05Apr23 complex\n", "no vasprun.xml"),
    ],
    ids=["FHI-aims", "CRYSTAL", "pw.x", "OUTCAR"],
)
def test_text_output_is_refused_by_the_name_of_its_program(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text(content)
    _write(tmp_path, ("vasp",))
    (result, usable) = read_calculations([tmp_path])
    assert usable.is_usable
    assert result.record.id == "run"
    assert words in result.record.problem
    (uploaded,) = read_sources([(name, content.encode())])
    assert "is not read" in uploaded.record.problem


def test_other_text_files_next_to_calculations_are_left_alone(tmp_path: Path) -> None:
    _write(tmp_path, ("vasp",))
    (tmp_path / "vasp" / "scf.out").write_text(PWSCF)
    (tmp_path / "slurm-1.out").write_text("job finished\n")
    assert len(read_calculations([tmp_path])) == 1
