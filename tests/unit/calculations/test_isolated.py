"""Uploaded outputs of calculations are read in a child, and hostile ones stop no others."""

import os
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bandgap.calculations import read_calculations, read_uploads, reading
from bandgap.calculations.records import calculation_items
from tests.unit.calculations.espresso_text import espresso
from tests.unit.calculations.vasprun_text import vasprun

AIMS = "\n\n          Invoking FHI-aims ...\n\n  When using FHI-aims, please cite\n"
CRYSTAL = f" {'*' * 79}\n *{' ' * 77}*\n *{'CRYSTAL17'.center(77)}*\n"
PWSCF = "\n     Program PWSCF v.7.2 starts on 27Nov2026 at 10: 0: 0\n"


def _write(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "vasprun.xml").write_text(vasprun())


def ended_items(data: bytes, *, path: str, name: str, **options: Any) -> Iterator[Any]:
    """Yield what a child reads, and end it at calculations whose name contains "bad"."""
    for item in calculation_items(data, path=path, name=name, **options):
        if "bad" in item[0] and item[1] is None:
            yield item
            os.kill(os.getpid(), signal.SIGSEGV)
        yield item


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_calculations_of_an_archive_that_end_their_reader_keep_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "calculation_items", ended_items)
    path = tmp_path / "batch.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a", "bad", "c"):
            archive.writestr(f"runs/{name}/vasprun.xml", vasprun())
    results = read_uploads([("batch.zip", path)])
    assert [(r.record.id, r.is_usable) for r in results] == [
        ("runs-a", True),
        ("runs-bad", False),
        ("runs-c", True),
    ]
    assert "reading was stopped" in results[1].record.problem


def test_uploads_give_the_results_of_the_files(tmp_path: Path) -> None:
    _write(tmp_path, ("a", "b"))
    (tmp_path / "b" / "vasprun.xml").write_text(espresso())
    unconverged = tmp_path / "unconverged.vasprun.xml"
    unconverged.write_text(vasprun(n_steps=60, last_change=0.1))
    files = read_calculations([tmp_path], keep_unconverged=True)
    uploads = read_uploads([(str(tmp_path), tmp_path)], keep_unconverged=True)
    facts = [
        [
            (r.record.id, r.record.problems, r.record.content, r.gap_eV, r.kind, r.level_of_theory)
            for r in results
        ]
        for results in (files, uploads)
    ]
    assert facts[0] == facts[1]
    assert [r.is_usable for r in files] == [True] * 3
    (refused,) = [r for r in read_calculations([tmp_path]) if not r.is_usable]
    assert refused.record.id == "unconverged"


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
    (uploaded,) = read_uploads([(name, tmp_path / "run" / name)])
    assert "is not read" in uploaded.record.problem


def test_other_text_files_next_to_calculations_are_left_alone(tmp_path: Path) -> None:
    _write(tmp_path, ("vasp",))
    (tmp_path / "vasp" / "scf.out").write_text(PWSCF)
    (tmp_path / "slurm-1.out").write_text("job finished\n")
    assert len(read_calculations([tmp_path])) == 1
