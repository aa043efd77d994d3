"""The frame of every page: worker state in the sidebar, address, messages, errors and theme."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import session
from app.components.shared import stores, words
from app.components.shared.waiting import worker_state
from bandgap import plots
from bandgap.foundation.errors import BandgapError
from bandgap.sources.cards import NO_SOURCE

WORDMARK = Path(__file__).resolve().parents[2] / "wordmark.svg"
_WHY = (
    "It was deleted, or it belongs to another workspace, which opens by the whole address that you "
    "were given, with its ws=... part."
)


def sidebar() -> None:
    """Draw the logo, and below the navigation a warning where no worker runs."""
    st.html(f"<style>{plots.theme_css()}</style>")
    st.logo(WORDMARK, size="large")
    with st.sidebar:
        worker_state()


def check_address() -> None:
    """Drop choices of the address that the workspace lacks; warn of a run and a data set.

    Only this workspace is searched, never another one.
    """
    library = stores.library()
    workspace = session.workspace()

    def has_run(run: str) -> bool:
        return library.run(workspace, run) is not None

    missing: list[str] = []
    run = session.selected_id("run")
    if run and not has_run(run) and run != stores.shipped_run().id:
        missing.append("run")
        session.choose("run", "")
        session.choose("prediction", "")
    dataset = session.selected_id("data")
    if dataset and dataset not in stores.datasets():
        missing.append("data set")
        session.choose("data", "")
    if not has_run(session.selected_id("runs")):
        session.choose("runs", "")
    source = session.selected_id("source")
    if source not in ("", NO_SOURCE) and library.is_registered("source"):
        known_sources = {*library.shipped_sources(), *(j.subject for j in stores.source_jobs())}
        if source not in known_sources:
            session.choose("source", "")
    if missing:
        session.set_message(
            f"This workspace does not contain the {' and the '.join(missing)} that the address "
            f"names. {_WHY}",
            tone="warning",
        )


def messages() -> None:
    """Show the message of the last action once.

    The container is there without a message too: what follows keeps its place in the page, so that
    sections that the visitor has opened stay open when the message goes.
    """
    with st.container():
        if message := session.take_message():
            tone, text, undo = message
            {"info": st.info, "warning": st.warning, "error": st.error}[tone](text)
            if undo is not None:
                st.button("Undo", icon=":material/undo:", key="undo", on_click=change, args=(undo,))


def change(action: Callable[..., object], *values: object) -> None:
    """Change the workspace before the page is drawn; an error is the message of the page."""
    try:
        stores.library().database.check_writable()
        action(*values)
    except BandgapError as error:
        session.set_message(words.escaped_sentence(str(error)), tone="error")


def problem(error: BandgapError, *, about: str = "") -> None:
    """Show the message of an error; `about` is the name of the object that it concerns."""
    st.error(
        words.escaped_sentence(f"{about}: {error}" if about else str(error)),
        icon=":material/error:",
    )


def warn(texts: Iterable[str]) -> None:
    """Show each warning of a run in a box; empty texts are skipped."""
    for text in filter(None, texts):
        st.warning(words.escaped_sentence(text), icon=":material/warning:")


def row(alignment: Literal["center", "bottom"] = "center") -> DeltaGenerator:
    """Return a container whose elements are beside each other."""
    return st.container(horizontal=True, vertical_alignment=alignment)


def heading(title: str, lead: str) -> None:
    """Show the title of the page and one sentence on its purpose."""
    st.title(title, anchor=False)
    st.caption(lead)


def dark() -> bool:
    """Return whether the visitor's theme is the dark one."""
    return bool(st.context.theme.type == "dark")
