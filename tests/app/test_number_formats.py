"""Numbers of a table have one notation, whatever the language of the browser.

The fixture `_tables_have_number_formats` of conftest.py applies the check to every table that a
test of the pages draws.
"""

import pandas as pd
import pytest
import streamlit as st

from tests.app.number_formats import columns_without_format

TABLE = pd.DataFrame({"id": ["a", "b"], "gap_eV": [1.5, None], "n": [1, 2]})


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (None, ["gap_eV"]),
        ({"gap_eV": st.column_config.NumberColumn("gap (eV)", format="%.2f")}, []),
        ({"gap_eV": st.column_config.NumberColumn("gap (eV)", format="localized")}, ["gap_eV"]),
        ({"gap_eV": None}, []),
    ],
    ids=["no settings", "printf", "of the browser", "hidden"],
)
def test_column_of_floats_needs_a_printf_format(config: object, names: list[str]) -> None:
    assert columns_without_format(TABLE, config) == names  # type: ignore[arg-type]
    assert columns_without_format(TABLE.style, config) == names  # type: ignore[arg-type]
    assert columns_without_format(TABLE.astype(object), config) == names  # type: ignore[arg-type]
