"""The manifest of inputs rebuilt after public bug reports: which rows hold, and where it is tested.

Structures are tested in `tests/unit/structures/test_field_cases.py`. The other inputs are tested
here, or in the files that are named below.
"""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.labels import read_labels
from bandgap.foundation.errors import InputError
from bandgap.structures import read_paths
from tests.unit.structures.test_field_cases import EXPECTED

pytestmark = pytest.mark.data

# Inputs of whole commands, by the file with their test.
TESTED_ELSEWHERE = {
    "163_optimade.json": "tests/unit/structures/test_field_cases.py",
    "213_same_crystal_twice.extxyz": "tests/unit/cli/test_structures.py",
    "300_compare_first.extxyz": "tests/unit/cli/test_evaluate.py",
    "300_compare_relabelled.extxyz": "tests/unit/cli/test_evaluate.py",
    "301_rattled_copies.extxyz": "tests/unit/cli/test_near_copies.py",
    "303_baseline_learn.extxyz": "tests/unit/runs/test_baseline_domain.py",
    "303_baseline_50_eV.extxyz": "tests/unit/runs/test_baseline_domain.py",
    "306_offset_of_1.5_eV.extxyz": "tests/unit/cli/test_evaluate.py",
}
OPEN: dict[str, str] = {}


def number_of_gaps(n: int) -> Callable[[Path], None]:
    """Return a check that a table has this number of gaps."""

    def check(path: Path) -> None:
        assert len(read_labels(path)) == n

    return check


def labels_refused(*words: str) -> Callable[[Path], None]:
    """Return a check that a table is refused with these words."""

    def check(path: Path) -> None:
        with pytest.raises(InputError) as error:
            read_labels(path)
        assert [word for word in words if word not in str(error.value)] == []

    return check


def check_table_with_empty_cells(path: Path) -> None:
    labels = read_labels(path)
    assert len(labels) == 3
    assert labels.problems  # names the rows without a gap


def check_gaps_in_hartree(path: Path) -> None:
    records = read_paths([path])
    gaps = labels_from_info(records, "gap_Ha")
    assert gaps == pytest.approx([27.2114 * float(r.info["gap_Ha"]) for r in records], rel=1e-5)
    assert gaps.min() > 2.7


def check_frame_without_a_gap(path: Path) -> None:
    gaps = labels_from_info(read_paths([path]), "gap_eV")
    assert np.isnan(gaps).any() and np.isfinite(gaps).any()


LABELS: dict[str, Callable[[Path], None]] = {
    "200_id_prop_no_header.csv": labels_refused("no header"),
    "201_excel_sep_line.csv": number_of_gaps(5),
    "202_E_g_header.csv": number_of_gaps(5),
    "203_mp_id_header.csv": number_of_gaps(5),
    "204_excel_na_words.csv": check_table_with_empty_cells,
    "205_gap_no_unit.csv": labels_refused("--unit eV", "page"),
    "206_two_gaps.csv": labels_refused("--column"),
    "210_key_unit_hartree.extxyz": check_gaps_in_hartree,
    "212_nan_gap.extxyz": check_frame_without_a_gap,
}


@pytest.mark.parametrize("file", LABELS)
def test_labels_are_read_or_refused_with_the_reason(test_data: Path, file: str) -> None:
    LABELS[file](test_data / "field_cases" / file)


def test_every_row_of_the_manifest_is_tested_or_listed_as_open(
    test_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (test_data / "field_cases" / "manifest.csv").open(encoding="utf-8") as file:
        names = [row["file"] for row in csv.DictReader(file)]
    tested = {*EXPECTED, *LABELS, *TESTED_ELSEWHERE}
    assert not tested & set(OPEN)
    assert set(names) == tested | set(OPEN)
    root = Path(__file__).resolve().parent.parent
    for name, path in TESTED_ELSEWHERE.items():
        assert name.partition("_")[0] in (root / path).read_text(encoding="utf-8")
    with capsys.disabled():
        print(f"\n{len(names) - len(OPEN)} of {len(names)} rows of the manifest hold")  # noqa: T201
        for name, reason in OPEN.items():
            print(f"open: {name}: {reason}")  # noqa: T201
