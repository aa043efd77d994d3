"""A figure with its numbers one click away, as a table and as a CSV."""

from typing import Any

import pandas as pd
import streamlit as st

from bandgap.foundation.csv_tables import csv_text
from components.shared import frame, tables


def figure_with_table(
    fig: Any, table: pd.DataFrame, *, key: str, alt: str, caption: str, columns: dict[str, Any] | None = None
) -> None:
    """Draw a figure with one sentence on what to look for; below it a closed expander holds the table and its CSV."""
    frame.figure(fig, key=key, alt=alt, caption=caption)
    with st.expander("The numbers of this figure"):
        st.dataframe(
            table,
            hide_index=True,
            placeholder="",
            height=tables.height(table),
            column_config=columns,
            alt=f"The numbers of the figure: {alt}",
        )
        st.download_button(
            "Download the numbers (CSV)",
            data=lambda: csv_text(table).encode(),
            file_name=f"{key}.csv",
            mime="text/csv",
            key=f"csv-{key}",
            on_click="ignore",
        )
