"""The visitor's workspaces on Home: continue, rename, share and claim one, start a new one."""

import uuid
from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import session, visitors
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out, edited_text
from bandgap.jobs import people
from bandgap.jobs.workspaces import (
    WorkspaceSummary,
    all_workspaces,
    has_workspace,
    rename_workspace,
    workspace_name,
    workspaces_of,
)

# Letters of an unknown id that are displayed: enough to recognise it, but not the whole id, which
# would open the workspace to anyone with a picture of the page.
SHOWN_LETTERS = 16


def other_workspaces() -> Sequence[WorkspaceSummary]:
    """Return the workspaces that the visitor can open, last changed first, except the open one.

    The local user can open all.
    """
    library = stores.whole_library()
    person = visitors.person()
    if person:
        ids = people.workspaces_of_person(library.database, person)
        workspaces = workspaces_of(library, ids)
    else:
        workspaces = all_workspaces(library)
    open_id = session.workspace_or_none()
    return [workspace for workspace in workspaces if workspace.id != open_id]


def continue_section(workspaces: Sequence[WorkspaceSummary]) -> None:
    """Offer the workspaces to a visitor without an address; the last changed one is highlighted."""
    st.subheader("Continue", anchor=False)
    _rows(workspaces, primary=True)


def workspaces_section() -> None:
    """Show the name of the open workspace and, in an expander, the other ones and all actions."""
    current = session.workspace()
    name = workspace_name(stores.library(), current)
    called = f"This workspace: {words.escaped(name)}" if name else "This workspace has no name yet"
    owner = people.owner_of(stores.library().database, current)
    is_owner = bool(owner) and owner == visitors.person()
    share = ", share it" if is_owner else ""
    with st.expander(f"{called} (rename it{share}, open another, start a new one)"):
        rename = partial(rename_workspace, stores.library(), current)
        edited_text("Name", name, rename, key="workspace-name")
        if is_owner:
            _shared_links(current, owner)
        start_button()
        _rows(other_workspaces())


def _shared_links(workspace: str, owner: str) -> None:
    """Offer links that let other people in, and the withdrawal of each."""
    database = stores.library().database
    st.caption("Only you can open this workspace, and those to whom you give a link.")
    with frame.row():
        reading, writing = (
            st.button(f"New link for {purpose}", icon=":material/link:")
            for purpose in ("reading", "writing")
        )
    if reading or writing:
        secret = people.share(database, workspace, owner, may_write=writing)
        st.caption("Copy this link now: it is shown once.")
        st.code(f"{st.context.url}?share={secret}", wrap_lines=True)
    for link in people.links(database, workspace):
        with frame.row():
            purpose = "writing" if link.may_write else "reading"
            users = words.count(link.users, "user")
            st.markdown(f"For {purpose}, of {words.moment(link.created)}: {users}", width="content")
            if st.button("Withdraw", key=f"withdraw-{link.digest}"):
                carry_out(partial(people.withdraw, database, workspace, owner, link.digest))


def unknown_workspace() -> None:
    """Show that the address names no workspace of this server, and offer the known ones.

    No new workspace is created.
    """
    st.title("No such workspace", anchor=False)
    workspace_id = session.unknown_workspace()
    if len(workspace_id) > SHOWN_LETTERS:
        workspace_id = f"{workspace_id[:SHOWN_LETTERS]}..."
    st.error(
        f"The address names the workspace **{words.escaped(workspace_id)}**, and none of that name "
        "is open to you here: the address was cut or mistyped, its link was withdrawn, or it "
        "belongs to another server. Check the part after ws= in the address, continue with a "
        "workspace below, or start one.",
        icon=":material/error:",
    )
    _claim_button(session.unknown_workspace())
    if workspaces := other_workspaces():
        continue_section(workspaces)
    else:
        st.caption("No workspace of this server is open to you.")
    start_button()


def _claim_button(workspace: str) -> None:
    """Offer a workspace that belongs to nobody to the person who has its address."""
    library = stores.whole_library()
    person = visitors.person()
    if not person or not has_workspace(library, workspace):
        return
    if not people.owner_of(library.database, workspace) and st.button("Make this workspace mine"):
        people.claim(library.database, workspace, person)
        session.switch_workspace(workspace)
        st.rerun()


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
