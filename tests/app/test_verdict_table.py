"""Columns of the table of verdicts on the page Data that are widths at first sight."""

import numpy as np
import pandas as pd
import pytest

from app.components.data.verdict_view import column_settings
from app.components.shared.tables import verdict_frame
from bandgap.jobs.rows import Verdict

WIDTH = 470 - 40 - 92  # pixels beside the structure at 1280, without the marks and pictures
SALT = Verdict("salt", "salt.cif", "ready", "", "NaCl", 8, True, None, {})
REFUSED = Verdict("ice", "ice.cif", "refused", "no cell", "", 0, False, None, {})


@pytest.mark.parametrize(
    ("verdicts", "gap_eV", "columns"),
    [
        ([SALT], np.nan, ["id", "status", "formula"]),
        ([SALT], 8.5, ["id", "status", "gap_eV", "formula"]),
        ([SALT, REFUSED], np.nan, ["id", "status", "problem"]),
    ],
    ids=["ready", "gaps", "refused"],
)
def test_columns_that_say_something_are_shown(
    verdicts: list[Verdict], gap_eV: float, columns: list[str]
) -> None:
    table = verdict_frame(verdicts).assign(gap_eV=gap_eV)
    widths = {name: s["width"] for name, s in column_settings(table).items() if s is not None}
    assert list(widths) == columns
    assert sum(widths.values()) <= WIDTH + (60 if "problem" in widths else 0)


def test_hidden_columns_are_in_the_menu_of_the_table() -> None:
    settings = column_settings(pd.DataFrame(verdict_frame([SALT])))
    assert [name for name, s in settings.items() if s is None] == [
        *("file", "gap_eV", "problem", "n_atoms", "periodic"),
    ]
