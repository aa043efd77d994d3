"""The list of the visitor's workspaces in the local storage of the browser.

Requests do not contain the local storage. The component (`browser.js`) also keeps one entry per
page in the browser's history. It is drawn in a fragment, so that its report runs the whole page
again only where the page shows the list.
"""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app import session
from app.components.shared import stores
from bandgap.jobs.server_owner import is_server_owner
from bandgap.jobs.workspaces import WorkspaceSummary, all_workspaces, is_filled, workspaces_of

SCRIPT = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
_KEY = "browser"  # hidden by `document.py`, as it displays nothing


def browser_memory(*, redraw: bool) -> None:
    """Make the browser remember the workspace unless it is empty, and read the list of the browser.

    With `redraw` the page is run again when the list has changed after the page was drawn.
    """
    whole_page = [True]
    _memory(whole_page, redraw=redraw)
    whole_page.clear()


@st.fragment
def _memory(whole_page: list[bool], *, redraw: bool) -> None:
    """Draw the component; `whole_page` is empty when this fragment runs again alone.

    A run of the whole page draws the list afterwards. It must not be ended here: it may be that of
    a click, which came in one request with the report of the browser and would be lost.
    """
    known_ids = session.remembered_workspaces()
    data = {
        "workspace": _workspace_to_remember(),
        "forget": session.forgets_workspaces(),
        "known": known_ids,
    }
    mount = st.components.v2.component("bandgap-browser", js=SCRIPT)
    reported = mount(key=_KEY, data=data, on_workspaces_change=lambda: None).get("workspaces")
    if reported is None or reported == known_ids:
        return
    session.take_report(reported)
    if redraw and not whole_page:
        st.rerun()


def other_workspaces() -> Sequence[WorkspaceSummary]:
    """Return the workspaces that the visitor can open, last changed first, except the open one.

    A visitor on the machine that runs the dashboard gets all workspaces of the data directory.
    Any other visitor gets the workspaces that the browser remembers.
    """
    address = str(st.get_option("server.address") or "")
    port = int(st.get_option("server.port"))
    if is_server_owner(st.context.headers.to_dict(), address=address, port=port):
        workspaces = all_workspaces(stores.library())
    else:
        workspaces = workspaces_of(stores.library(), session.remembered_workspaces() or [])
    open_id = session.workspace_or_none()
    return [workspace for workspace in workspaces if workspace.id != open_id]


def _workspace_to_remember() -> str:
    workspace = session.workspace_or_none()
    if (
        workspace is None
        or session.forgets_workspaces()
        or not is_filled(stores.library(), workspace)
    ):
        return ""
    return workspace
