"""The frame of every page: worker state in the sidebar, address, messages, errors and theme."""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import streamlit as st

from app import session
from app.components.shared import stores, words
from app.components.shared.waiting import worker_state
from app.components.workspaces.browser import hiding_css
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
    st.html(
        f"<style>{plots.theme_css()}\n.st-key-{session.ADDRESS_FIELD} {{ display: none "
        f"}}\n{hiding_css()}</style>"
    )
    st.logo(WORDMARK, size="large")
    with st.sidebar:
        worker_state()


def check_address() -> None:
    """Warn when the workspace does not have the run or the data set of the address.

    Only this workspace is searched, never another one.
    """
    workspace = session.workspace()
    run = session.selected_id("run")
    dataset = session.selected_id("data")
    missing_choices: dict[str, tuple[session.Choice, ...]] = {}
    is_stored = not run or stores.library().run(workspace, run) is not None
    if not is_stored and run != stores.shipped_run().id:
        missing_choices["run"] = ("run", "prediction")
    if dataset and dataset not in {row.id for row in stores.library().datasets(workspace)}:
        missing_choices["data set"] = ("data",)
    for choice in itertools.chain(*missing_choices.values()):
        session.choose(choice, "")
    _drop_unknown_choices(workspace)
    if missing_choices:
        names = " and the ".join(missing_choices)
        session.set_message(
            f"This workspace does not contain the {names} that the address names. {_WHY}",
            tone="warning",
        )


def _drop_unknown_choices(workspace: str) -> None:
    """Drop runs to compare and a source that the workspace does not have, without a message."""
    library = stores.library()
    if runs := session.selected_id("runs"):
        known_runs = [id for id in runs.split(",") if library.run(workspace, id) is not None]
        session.choose("runs", ",".join(known_runs))
    source = session.selected_id("source")
    if source in ("", NO_SOURCE) or not library.is_registered("source"):
        return
    is_shipped = source in library.shipped_sources()
    if not is_shipped and all(job.subject != source for job in stores.source_jobs()):
        session.choose("source", "")


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
                st.button("Undo", icon=":material/undo:", key="undo", on_click=undo)


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


def send_on(text: str, *, to: str) -> None:
    """Show what is missing, with a link to the page that provides it."""
    st.info(text, icon={"data": ":material/table_view:", "train": ":material/model_training:"}[to])
    st.page_link(
        f"views/{to}.py", label=f"Go to {to.capitalize()}", icon=":material/arrow_forward:"
    )


def show(page: Callable[[], None]) -> None:
    """Call the function of a page and show an error of the library as a message."""
    try:
        page()
    except BandgapError as error:
        problem(error)


def heading(title: str, lead: str) -> None:
    """Show the title of the page and one sentence on its purpose."""
    st.title(title, anchor=False)
    st.caption(lead, width=720)


def dark() -> bool:
    """Return whether the visitor's theme is the dark one."""
    return bool(st.context.theme.type == "dark")
