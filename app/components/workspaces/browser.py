"""What the browser remembers of the visitor's workspaces: kept in its local storage, which no request sends to anybody.

The same component (`browser.js`) keeps one entry a page in the browser's history. It reports from a fragment: a page is
run again only where it shows what was reported.
"""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app import session
from app.components.shared import stores
from bandgap.jobs.own_machine import is_own_machine
from bandgap.jobs.workspaces import WorkspaceSummary, all_workspaces, is_filled, workspaces_of

SCRIPT = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
_KEY = "browser"


@st.fragment
def browser_memory(*, redraw: bool) -> None:
    """Let the browser remember the workspace once something is in it, and take note of those that it knows.

    With `redraw` the page is run again when these are others than before.
    """
    told = session.remembered_workspaces()
    data = {"workspace": _worth_remembering(), "forget": session.forgets_workspaces(), "told": told}
    mount = st.components.v2.component("bandgap-browser", js=SCRIPT)
    reported = mount(key=_KEY, data=data, on_workspaces_change=_nothing).get("workspaces")
    if reported is None or reported == told:
        return
    session.take_report(reported)
    if redraw:
        st.rerun()


def hiding_css() -> str:
    """Return the style that hides the component, which has nothing to show."""
    return f".st-key-{_KEY} {{ display: none }}"


def other_workspaces() -> Sequence[WorkspaceSummary]:
    """Return the workspaces that the visitor may continue, last changed first, without the one that is open.

    These are all of the data directory for the user who runs the dashboard on the own machine; for everybody else those
    that this browser remembers.
    """
    address, port = str(st.get_option("server.address") or ""), int(st.get_option("server.port"))
    if is_own_machine(st.context.headers.to_dict(), address=address, port=port):
        found = all_workspaces(stores.library())
    else:
        found = workspaces_of(stores.library(), session.remembered_workspaces() or [])
    return [workspace for workspace in found if workspace.id != session.workspace_or_none()]


def _worth_remembering() -> str:
    workspace = session.workspace_or_none()
    if (
        workspace is None
        or session.forgets_workspaces()
        or not is_filled(stores.library(), workspace)
    ):
        return ""
    return workspace


def _nothing() -> None:
    """Take no action: the value is read where the component is drawn."""
