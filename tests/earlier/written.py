"""What an earlier version wrote: the archive, what is known of it, and how it is read and compared.

The files are those of commit 54592be, before its modules were moved; `tests/earlier/make_earlier.py` has made them.
"""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandgap
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import JobStore
from bandgap.predictions.table import NUMBER_COLUMNS
from bandgap.structures import StructureRecord

ARCHIVE = Path(__file__).resolve().parent / "written_by_54592be.zip"
with zipfile.ZipFile(ARCHIVE) as _archive:
    ABOUT: dict[str, Any] = json.loads(_archive.read("about.json"))
RUNS: dict[str, Any] = ABOUT["runs"]
EXTRAS = ("features", "fisher", "variational", "snapshots")
SAME_EV = 2e-3  # as in the self-check of a stored model: another machine differs by less
CLOSE_EV = 0.05  # of predictions by chains whose last draws another machine has drawn
WORKSPACE: dict[str, Any] = ABOUT["workspace"]


def structures(earlier: Path, name: str) -> list[StructureRecord]:
    return list(bandgap.read_structures((earlier / "structures" / name).read_bytes(), name))


def labelled(earlier: Path, name: str) -> tuple[list[StructureRecord], np.ndarray]:
    records = structures(earlier, name)
    return records, np.array([record.info["gap_eV"] for record in records], dtype=np.float64)


def assert_same_table(found: str, expected: Path, *, within_eV: float = SAME_EV) -> None:
    """Texts are the same, and numbers differ by less than `within_eV`."""
    rows, wanted = (list(csv.DictReader(text.splitlines())) for text in (found, expected.read_text(encoding="utf-8")))
    assert [set(row) for row in rows] == [set(row) for row in wanted]
    for row, other in zip(rows, wanted, strict=True):
        for name, value in row.items():
            if name in NUMBER_COLUMNS and other[name]:
                assert float(value) == pytest.approx(float(other[name]), abs=within_eV), (row["id"], name)
            else:
                assert value == other[name], (row["id"], name)


def run_of(home: Home, which: str) -> RunRow:
    run = Library(home).run(WORKSPACE["id"], WORKSPACE[which])
    assert run is not None
    return run


def state_of(home: Home, job_id: str) -> str:
    job = JobStore(home).job(WORKSPACE["id"], job_id)
    assert job is not None
    return f"{job.kind} {job.state} {job.error}".strip()
