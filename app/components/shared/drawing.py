"""Figures on the page, built once for the same content, as a page draws all of its figures anew at every click."""

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, tables
from bandgap import plots

_CONFIG = {"displaylogo": False, "displayModeBar": False, "responsive": True}


def figure(
    make: Callable[..., Any], *args: Any, key: str, alt: str, caption: str = "", **options: Any
) -> None:
    """Show `make(*args, **options)` with its alternative text and, below, one sentence on what to look for."""
    st.plotly_chart(
        drawn(make, *args, **options), key=key, theme=None, width="stretch", config=_CONFIG, alt=alt
    )
    if caption:
        st.caption(caption)


def figure_with_table(
    make: Callable[..., Any],
    table: pd.DataFrame,
    *,
    key: str,
    alt: str,
    caption: str,
    of: Any = None,
    **options: Any,
) -> None:
    """Show `make(table, **options)` as `figure` does; below it a closed expander holds the table and its CSV.

    A figure of something else, which the table holds the numbers of, is made of the arguments `of`.
    """
    figure(make, *((table,) if of is None else of), key=key, alt=alt, caption=caption, **options)
    with st.expander("The numbers of this figure"):
        tables.show(table, alt=f"The numbers of the figure: {alt}")
        downloads.csv_button(
            "Download the numbers (CSV)", lambda: table, f"{key}.csv", key=f"csv-{key}"
        )


def parity_columns(table: pd.DataFrame) -> list[Any]:
    """Return what `plots.parity` draws of a table as `heldout_frame` makes it."""
    return [table[name].to_numpy() for name in ("gap_eV", "mean_eV", "lower_eV", "upper_eV")]


def drawn(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return `make(*args, **options)` in the visitor's theme: one figure for the same content, not to be changed."""
    dark = frame.dark()
    content = pickle.dumps((make.__module__, make.__qualname__, args, options))
    return _drawn(
        hashlib.blake2b(content, digest_size=16).hexdigest(), dark, lambda: make(*args, **options)
    )


@st.cache_resource(max_entries=512, show_spinner=False)
def _drawn(content: str, dark: bool, _make: Callable[[], Any]) -> Any:
    fig = _make()
    if dark:
        fig.update_layout(template=plots.template(dark=True))  # takes longer than all else here
    return fig
