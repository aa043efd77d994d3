"""What renames or deletes something, and the message that follows."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.deletions import KEPT_DAYS, Kind, restore
from bandgap.jobs.housekeeping import MAX_NAME


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
        stores.library().database.check_writable()
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


def edited_text(
    label: str, text: str, store: Callable[[str], object], *, key: str, **options: Any
) -> None:
    """Draw a field; its text is stored when the user changes it, before the page is drawn."""
    field_key = f"{key}-{text}"

    st.text_input(
        label,
        text,
        max_chars=MAX_NAME,
        key=field_key,
        on_change=lambda: frame.change(store, st.session_state[field_key]),
        disabled=not stores.may_write(),
        **options,
    )


def delete_button(kind: Kind, item_id: str, name: str, delete: Callable[[], object]) -> None:
    """Draw the button that moves an object to the bin; the message that follows can undo it."""
    if st.button(f"Delete this {kind}", icon=":material/delete:", key=f"delete-{item_id}"):
        message = (
            f"{name} is deleted. The bin at the end of this page keeps it for {KEPT_DAYS} days."
        )
        undo = partial(restore_deleted, kind, item_id)
        carry_out(delete, message, forget=_CHOICES[kind], undo=undo)


def restore_deleted(kind: Kind, item_id: str) -> None:
    """Restore and select a deleted object, and say so; for `frame.change`."""
    deletion = restore(stores.library(), session.workspace(), kind, item_id)
    session.choose(_CHOICES[kind], item_id)
    session.set_message(words.escaped(f"{deletion.name} is restored."))


_CHOICES: Mapping[Kind, session.Choice] = {
    "run": "run",
    "data set": "data",
    "source model": "source",
}
