"""Cells that spreadsheets would run are defused, and reading returns what was written."""

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandgap.foundation.csv_tables import csv_text, defuse, rearm


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\ta", "\ra", "'=1", "''=1"])
def test_defuse_adds_an_apostrophe_to_dangerous_text(text):
    assert defuse(text) == "'" + text


@pytest.mark.parametrize(
    "text", ["x;=1+1", "x\t@A1", "x\n-1", "x;'+1", 'x;"=1+1', "x;y;=1;z", "\t=1"]
)
def test_defuse_protects_every_cell_that_another_separator_makes(text):
    cells = re.split("[;\t\r\n]", defuse(text))
    assert any(cell.startswith("'") for cell in cells)
    assert not any(cell.lstrip('"').startswith(tuple("=+-@")) for cell in cells)


@pytest.mark.parametrize("text", ["", "KAXCUK", "'quoted'", "C6H6 = benzene", "00011"])
def test_defuse_does_not_change_harmless_text(text):
    assert defuse(text) == text


@given(st.text(alphabet="'=+-@\t\r\nab,;\" ", max_size=6))
def test_rearm_undoes_defuse_for_every_text(text):
    assert rearm(defuse(text)) == text


@given(st.lists(st.text(alphabet="'=+-@\t\r\nab,;\" ", max_size=6), min_size=1, max_size=4))
def test_csv_reader_returns_the_cells_of_csv_text(texts):
    frame = pd.DataFrame(
        {"id": pd.Series(texts, dtype="str"), "gap_eV": np.arange(len(texts), dtype=float)}
    )
    rows = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert rows[0] == ["id", "gap_eV"]
    assert [rearm(row[0]) for row in rows[1:]] == texts


def test_csv_text_does_not_defuse_numbers():
    frame = pd.DataFrame(
        {"a": [-1.23456789, -0.0], "n": [-3, 4], "b": [np.nan, 1e-9], "c": [True, None]}
    )
    assert csv_text(frame) == "a,n,b,c\n-1.234568,-3,,True\n0.0,4,0.0,\n"


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT], ids=str)
def test_csv_text_has_an_empty_cell_for_any_missing_value(missing):
    frame = pd.DataFrame({"id": ["a", "b"], "n_atoms": pd.Series([3, missing], dtype="object")})
    assert csv_text(frame) == "id,n_atoms\na,3\nb,\n"


def test_csv_text_keeps_integers_next_to_a_missing_value():
    frame = pd.DataFrame({"n_atoms": pd.array([12, None], dtype="Int64")})
    assert csv_text(frame) == "n_atoms\n12\n\n"
