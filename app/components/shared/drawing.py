"""Figures of the pages. They are cached by content, as every click draws all figures of a page."""

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from app.components.shared import frame
from app.components.shared.paper_figure import paper_figure
from bandgap import plots

CONFIG = {"displaylogo": False, "displayModeBar": False, "responsive": True}


def figure(
    make: Callable[..., Any],
    *args: Any,
    key: str,
    alt: str,
    caption: str = "",
    table: pd.DataFrame | None = None,
    **options: Any,
) -> None:
    """Show the figure `make(*args, **options)` with its alternative text and a caption below.

    A popover below it offers the figure for a paper, and its numbers: by default its points.
    """
    fig = drawn(make, *args, **options)
    st.plotly_chart(fig, key=key, theme=None, width="stretch", config=CONFIG, alt=alt)
    if caption:
        st.caption(caption)
    paper_figure(fig, key=key, table=table)


def parity_columns(table: pd.DataFrame) -> list[Any]:
    """Return the columns of a table of `heldout_frame` that `plots.parity` draws."""
    return [table[name].to_numpy() for name in ("gap_eV", "mean_eV", "lower_eV", "upper_eV")]


def drawn(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return `make(*args, **options)` in the visitor's theme.

    Equal content gives the same object, which must not be changed.
    """
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
