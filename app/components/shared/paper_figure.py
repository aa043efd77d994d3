"""The popover below a figure that offers its numbers, and the figure for a paper.

Nothing is drawn while it is closed.
"""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, tables
from bandgap.foundation.browsers import find_browser
from bandgap.plots.publication import (
    COLUMN_CM,
    PAGE_CM,
    Format,
    export_size,
    figure_file,
    figure_numbers,
    print_figure,
)

WIDTHS = {f"{COLUMN_CM:g} cm, one column": COLUMN_CM, f"{PAGE_CM:g} cm, two columns": PAGE_CM}
FORMATS: tuple[Format, ...] = ("pdf", "svg", "png")


@st.fragment
def paper_figure(fig: Any, *, key: str, table: pd.DataFrame | None) -> None:
    """Draw the button that opens the popover, and its contents once it is open.

    Parameters
    ----------
    fig
        The Plotly figure.
    key
        Key of the figure on the page, and name of the files.
    table
        The numbers of the figure; None for its points.
    """
    with st.popover(
        "Figure and numbers",
        icon=":material/download:",
        type="tertiary",
        key=f"paper-{key}",
        on_change="rerun",
    ) as popover:
        if not popover.open:
            return
        numbers = figure_numbers(fig) if table is None else table
        tables.show(numbers, alt="The numbers of this figure", rows=6)
        width = st.radio("Width", list(WIDTHS), key=f"paper-width-{key}")
        width_cm = WIDTHS[width]
        exports = find_browser() is not None
        with frame.row():
            for file_format in FORMATS if exports else ():
                downloads.file_button(
                    file_format.upper(),
                    partial(figure_file, fig, file_format, width_cm=width_cm),
                    f"{key}-{width_cm:g}cm.{file_format}",
                    key=f"paper-{file_format}-{key}",
                )
            downloads.csv_button(
                "Numbers (CSV)",
                lambda: numbers,
                f"{key}-numbers.csv",
                key=f"paper-csv-{key}",
            )
        if exports:
            st.caption("Exported by the browser of the server; PNG at 300 dots per inch.")
            return
        image = {"filename": key, "format": "svg", **export_size(fig, "svg", width_cm=width_cm)}
        st.plotly_chart(
            print_figure(fig),
            key=f"paper-figure-{key}",
            theme=None,
            config={
                "displaylogo": False,
                "displayModeBar": True,
                "modeBarButtons": [["toImage"]],
                "toImageButtonOptions": image,
            },
        )
        st.caption("The camera saves the figure as SVG.")
