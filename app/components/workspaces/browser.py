"""One entry per page in the history of the browser (`browser.js`)."""

from pathlib import Path

import streamlit as st

from app import session

SCRIPT = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
_KEY = "browser"  # hidden by `document.py`, as it displays nothing


@st.fragment
def keep_history() -> None:
    """Make the browser keep one entry per page, and write the address when it does."""
    data = {"known": session.replaces_history_entries()}
    mount = st.components.v2.component("bandgap-browser", js=SCRIPT)
    reported = mount(key=_KEY, data=data, on_keeps_history_change=lambda: None)
    if reported.get("keeps_history"):
        session.replace_history_entries()
