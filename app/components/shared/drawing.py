"""Figures that are built once for the same content, as a page draws all of its figures anew at every click."""

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

import streamlit as st

from bandgap import plots
from components.shared import frame


def drawn(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return `make(*args, **options)` in the visitor's theme: one figure for the same content, not to be changed."""
    dark = frame.dark()
    content = pickle.dumps((make.__module__, make.__qualname__, args, options))
    return _drawn(hashlib.blake2b(content, digest_size=16).hexdigest(), dark, lambda: make(*args, **options))


@st.cache_resource(max_entries=512, show_spinner=False)
def _drawn(content: str, dark: bool, _make: Callable[[], Any]) -> Any:
    fig = _make()
    if dark:
        fig.update_layout(template=plots.template(dark=True))  # takes longer than all else here
    return fig
