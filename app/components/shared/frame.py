"""What surrounds every page: worker state in the sidebar, address, messages, errors without traceback, theme."""

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

WORDMARK = Path(__file__).resolve().parents[2] / "wordmark.svg"
_WHY = (
    "It was deleted, or it belongs to another workspace, which opens by the whole address that you "
    "were given, with its ws=... part."
)


def sidebar() -> None:
    """Show below the navigation whether computing is possible, and what the address is good for."""
    st.html(
        f"<style>{plots.theme_css()}\n.st-key-{session.KEPT} {{ display: none "
        f"}}\n{hiding_css()}</style>"
    )
    st.logo(WORDMARK, size="large")
    with st.sidebar:
        worker_state()
        st.caption(
            "Keep this page's address: it is the key to your workspace, from another browser, too. "
            "Whoever has it sees what is in it. This browser lists your workspaces on Home."
        )


def check_address() -> None:
    """Say so when the run or the data set of the address is not one of this workspace; others' are never looked up."""
    workspace, run, dataset = session.workspace(), session.chosen("run"), session.chosen("data")
    gone: dict[str, tuple[session.Choice, ...]] = {}
    if run and stores.library().run(workspace, run) is None:
        gone["run"] = ("run", "prediction")
    if dataset and dataset not in stores.dataset_names(workspace):
        gone["data set"] = ("data",)
    for choice in itertools.chain(*gone.values()):
        session.choose(choice, "")
    if gone:
        names = " and the ".join(gone)
        session.tell(
            f"This workspace does not hold the {names} that the address names. {_WHY}",
            tone="warning",
        )


def messages() -> None:
    """Show the sentence that the last action left, once."""
    if kept := session.told():
        tone, text = kept
        {"info": st.info, "warning": st.warning, "error": st.error}[tone](text)


def problem(error: BandgapError, *, about: str = "") -> None:
    """Show an error of the library in its own words, after the name of what it is about."""
    st.error(
        words.escaped_sentence(f"{about}: {error}" if about else str(error)),
        icon=":material/error:",
    )


def warn(texts: Iterable[str]) -> None:
    """Show what a run warns of, one box a sentence; empty texts are none."""
    for text in filter(None, texts):
        st.warning(words.escaped_sentence(text), icon=":material/warning:")


def send_on(text: str, *, to: str) -> None:
    """Say what is missing here, and lead to the page where it comes from."""
    st.info(text, icon={"data": ":material/table_view:", "train": ":material/model_training:"}[to])
    st.page_link(
        f"views/{to}.py", label=f"Go to {to.capitalize()}", icon=":material/arrow_forward:"
    )


def show(page: Callable[[], None]) -> None:
    """Run a page's function; an error of the library becomes its sentence, here and not in `st.navigation`'s run."""
    try:
        page()
    except BandgapError as error:
        problem(error)


def heading(title: str, lead: str) -> None:
    """Show the page's title and one sentence on what the page is for."""
    st.title(title, anchor=False)
    st.caption(lead, width=720)


def dark() -> bool:
    """Return whether the visitor's theme is the dark one."""
    return bool(st.context.theme.type == "dark")
