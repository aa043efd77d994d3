"""Forms that rename or delete something, and the message that follows."""

from collections.abc import Callable

import streamlit as st

from app import session
from app.components.shared import frame, words
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.deletions import KEPT_DAYS


def carry_out(
    action: Callable[[], object], message: str = "", *, forget: session.Choice | None = None
) -> None:
    """Call an action and run the page again with a message; show an error of the library here.

    Parameters
    ----------
    action
        The function to call.
    message
        Plain text for the top of the page after success.
    forget
        The choice, such as "run", to remove from session and address after success, because
        the object was deleted.
    """
    try:
        action()
    except BandgapError as error:
        frame.problem(error)
        return
    if forget is not None:
        session.choose(forget, "")
    if message:
        session.set_message(words.escaped(message))
    st.rerun()


def rename_form(
    key: str, name: str, rename: Callable[[str], object], *, noun: str, max_chars: int
) -> None:
    """Draw the form that renames an object; `noun`, such as "run", names its kind."""
    with st.form(f"rename-{key}", border=False):
        new_name = st.text_input("Name", name, max_chars=max_chars)
        if st.form_submit_button("Rename"):
            carry_out(lambda: rename(new_name), f"The {noun} is now called {new_name}.")


def delete_button(
    key: str,
    name: str,
    delete: Callable[[], object],
    *,
    label: str,
    sure: str,
    forget: session.Choice,
) -> None:
    """Draw the button that moves an object to the bin; a ticked checkbox enables it."""
    ticked = st.checkbox(sure, key=f"sure-{key}")
    if st.button(label, disabled=not ticked, icon=":material/delete:", key=f"delete-{key}"):
        message = (
            f"{name} is deleted. The bin at the end of this page keeps it for {KEPT_DAYS} days."
        )
        carry_out(delete, message, forget=forget)
