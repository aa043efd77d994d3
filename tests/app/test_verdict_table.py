"""Columns of the table of verdicts on the page Data: those that say nothing are left out."""

import pandas as pd
import pytest

from app.components.data.verdict_view import _shown_columns

ALWAYS = ["id", "status", "formula", "n_atoms"]


def columns_of_table(**changed: list[object]) -> list[str]:
    table = pd.DataFrame(
        {
            "id": ["salt", "ice"],
            "file": ["salt.cif", "ice.cif"],
            "status": ["ready", "ready"],
            "gap_eV": [float("nan"), float("nan")],
            "problem": ["", ""],
            "formula": ["NaCl", "H2O"],
            "n_atoms": [8, 12],
            "periodic": ["crystal", "crystal"],
        }
    )
    return list(_shown_columns(table.assign(**changed)))


@pytest.mark.parametrize(
    "files",
    [["salt.cif", "ice.cif"], ["all.zip/a/salt.cif", "all.zip/b/ice.cif"], ["all.extxyz"] * 2],
    ids=["files", "zip", "one file"],
)
def test_columns_that_say_nothing_are_left_out(files: list[object]) -> None:
    assert columns_of_table(file=files) == ALWAYS


@pytest.mark.parametrize(
    ("changed", "columns"),
    [
        ({"file": ["POSCAR-1", "POSCAR-2"]}, ["file"]),
        ({"gap_eV": [float("nan"), 6.5]}, ["gap_eV"]),
        ({"periodic": ["crystal", "molecule"]}, ["periodic"]),
        # The file that has to be mended is named.
        ({"status": ["refused", "ready"], "problem": ["no cell", ""]}, ["problem", "file"]),
    ],
    ids=["other names", "gaps", "kinds", "refused"],
)
def test_columns_that_say_something_are_shown(
    changed: dict[str, list[object]], columns: list[str]
) -> None:
    assert set(columns_of_table(**changed)) == {*ALWAYS, *columns}


def test_single_structure_has_its_kind_and_its_file() -> None:
    table = pd.DataFrame(
        {
            "id": ["salt"],
            "file": ["salt.cif"],
            "status": ["ready"],
            "gap_eV": [5.0],
            "problem": [""],
            "formula": ["NaCl"],
            "n_atoms": [8],
            "periodic": ["crystal"],
        }
    )
    columns = ["id", "gap_eV", "status", "formula", "n_atoms", "periodic", "file"]
    assert list(_shown_columns(table)) == columns
