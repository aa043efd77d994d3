"""Widths of the columns in the table of runs on the page Train."""

import pandas as pd
import pytest

from app.components.shared.tables import run_columns

SHORT = "Ridge output layer"
LONG = "Three methods without transfer, weighted, levels of the molecules"


@pytest.mark.parametrize(
    ("names", "width"), [([], 280), ([SHORT], 280), ([SHORT, LONG], 420), ([2 * LONG], 420)]
)
def test_column_of_names_is_as_wide_as_the_longest_name(names: list[str], width: int) -> None:
    table = pd.DataFrame({"run": names})
    assert run_columns(table)["run"]["width"] == width
