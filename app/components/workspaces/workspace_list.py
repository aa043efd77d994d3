"""The visitor's workspaces on Home: continue one, rename the open one, start a new one."""

import uuid
from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.actions import edited_text
from app.components.workspaces.browser import other_workspaces
from bandgap.jobs.workspaces import WorkspaceSummary, rename_workspace, workspace_name

# Letters of an unknown id that are displayed: enough to recognise it, but not the whole id, which
# would open the workspace to anyone with a picture of the page.
SHOWN_LETTERS = 16


def continue_section(workspaces: Sequence[WorkspaceSummary]) -> None:
    """Offer the workspaces to a visitor without an address; the last changed one is highlighted."""
    st.subheader("Continue", anchor=False)
    _rows(workspaces, primary=True)


def workspaces_section() -> None:
    """Show the name of the open workspace and, in an expander, the other ones and all actions."""
    current = session.workspace()
    name = workspace_name(stores.library(), current)
    called = f"This workspace: {words.escaped(name)}" if name else "This workspace has no name yet"
    with st.expander(f"{called} (rename it, open another, start a new one)"):
        st.caption(
            "Keep this page's address: it is the key to your workspace, from another browser, too. "
            "Whoever has it sees what is in it."
        )
        rename = partial(rename_workspace, stores.library(), current)
        edited_text("Name", name, rename, key="workspace-name")
        # Above the rows, which may appear late: a button that moves misses a click.
        with frame.row():
            start_button()
            st.button(
                "Forget all workspaces in this browser",
                help=_FORGET_HELP,
                on_click=session.forget_workspaces,
            )
        _rows(other_workspaces())


def unknown_workspace() -> None:
    """Show that the address names no workspace of this server, and offer the known ones.

    No new workspace is created.
    """
    st.title("No such workspace", anchor=False)
    workspace_id = session.unknown_workspace()
    if len(workspace_id) > SHOWN_LETTERS:
        workspace_id = f"{workspace_id[:SHOWN_LETTERS]}..."
    st.error(
        f"The address names the workspace **{words.escaped(workspace_id)}**, and this server has "
        "none of that name: the address was cut or mistyped, or it belongs to another server. "
        "Check the part after ws= in the address, continue with a workspace below, or start one.",
        icon=":material/error:",
    )
    if workspaces := other_workspaces():
        continue_section(workspaces)
    else:
        st.caption("This browser remembers no workspace of this server.")
    start_button()


def start_button() -> None:
    """Draw the button that opens a new, empty workspace."""
    st.button("Start a new workspace", on_click=_start_new)


def _start_new() -> None:
    workspace = str(uuid.uuid4())
    stores.open_workspace(workspace)
    session.switch_workspace(workspace)


def _rows(workspaces: Sequence[WorkspaceSummary], *, primary: bool = False) -> None:
    for place, workspace in enumerate(workspaces):
        numbers = {
            "data set": workspace.datasets,
            "run": workspace.runs,
            "prediction": workspace.predictions,
        }
        contents = ", ".join(words.count(n, noun) for noun, n in numbers.items() if n)
        active = " (a job is running)" if workspace.active else ""
        name = f"**{words.escaped(workspace.name)}**, last" if workspace.name else "Last"
        with frame.row():
            st.button(
                f"Continue: {contents}{active}",
                key=f"continue-{workspace.id}",
                type="primary" if primary and place == 0 else "secondary",
                on_click=session.switch_workspace,
                args=(workspace.id,),
            )
            st.markdown(f"{name} changed on {words.moment(workspace.changed)}", width="content")


_FORGET_HELP = (
    "On a computer that others use, too. The workspaces stay on the server; only their addresses "
    "open them then, so keep this page's address first."
)
