"""Forms that rename or delete something, and the message that follows."""

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.deletions import KEPT_DAYS, Kind, restore


def carry_out(
    action: Callable[[], object],
    message: str = "",
    *,
    page: str = "",
    forget: session.Choice | None = None,
    undo: Callable[[], None] | None = None,
) -> None:
    """Call an action and run the page again, or another one; show an error of the library here.

    Parameters
    ----------
    action
        The function to call.
    message
        Plain text for the top of the page after success.
    page
        The page to switch to after success, such as "train"; by default this one.
    forget
        The choice, such as "run", to remove from session and address after success, because
        the object was deleted.
    undo
        What the button Undo of the message calls.
    """
    try:
        action()
    except BandgapError as error:
        frame.problem(error)
        return
    if forget is not None:
        session.choose(forget, "")
    if message:
        session.set_message(words.escaped(message), undo=undo)
    if page:
        st.switch_page(f"views/{page}.py")
    st.rerun()


def rename_form(
    key: str, name: str, rename: Callable[[str], object], *, noun: str, max_chars: int
) -> None:
    """Draw the form that renames an object; `noun`, such as "run", names its kind."""
    with st.form(f"rename-{key}", border=False):
        new_name = st.text_input("Name", name, max_chars=max_chars)
        if st.form_submit_button("Rename"):
            carry_out(lambda: rename(new_name), f"The {noun} is now called {new_name}.")


def delete_button(kind: Kind, item_id: str, name: str, delete: Callable[[], object]) -> None:
    """Draw the button that moves an object to the bin; the message that follows can undo it."""
    if st.button(f"Delete this {kind}", icon=":material/delete:", key=f"delete-{item_id}"):
        message = (
            f"{name} is deleted. The bin at the end of this page keeps it for {KEPT_DAYS} days."
        )
        undo = partial(restore_deleted, kind, item_id)
        carry_out(delete, message, forget=_CHOICES[kind], undo=undo)


def restore_deleted(kind: Kind, item_id: str) -> None:
    """Restore and select a deleted object, and say so; called before the page is drawn."""
    try:
        deletion = restore(stores.library(), session.workspace(), kind, item_id)
    except BandgapError as error:
        session.set_message(words.escaped_sentence(str(error)), tone="error")
        return
    session.choose(_CHOICES[kind], item_id)
    session.set_message(words.escaped(f"{deletion.name} is restored."))


_CHOICES: Mapping[Kind, session.Choice] = {
    "run": "run",
    "data set": "data",
    "source model": "source",
}
