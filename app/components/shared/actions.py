"""What every deletion and new name has in common: its form, and the problem or what was done on the page drawn anew."""

from collections.abc import Callable

import streamlit as st

from app import session
from app.components.shared import frame, words
from bandgap.foundation.errors import BandgapError


def carry_out(
    action: Callable[[], object], told: str = "", *, forget: session.Choice | None = None
) -> None:
    """Do it and run the page anew, with the plain sentence `told` at its top; a problem is shown here instead.

    `forget` is the choice of what is then gone, such as "run", which leaves session and address.
    """
    try:
        action()
    except BandgapError as error:
        frame.problem(error)
        return
    if forget is not None:
        session.choose(forget, "")
    if told:
        session.tell(words.escaped(told))
    st.rerun()


def rename_form(
    key: str, name: str, rename: Callable[[str], object], *, of: str, most: int
) -> None:
    """Draw the form that gives another name of at most so many letters to a thing, such as "run"."""
    with st.form(f"rename-{key}", border=False):
        given = st.text_input("Name", name, max_chars=most)
        if st.form_submit_button("Rename"):
            carry_out(lambda: rename(given), f"The {of} is now called {given}.")


def delete_button(
    key: str,
    name: str,
    delete: Callable[[], object],
    *,
    label: str,
    sure: str,
    forget: session.Choice,
) -> None:
    """Draw the button of a deletion, which works when the box before it is ticked."""
    ticked = st.checkbox(sure, key=f"sure-{key}")
    if st.button(label, disabled=not ticked, icon=":material/delete:", key=f"delete-{key}"):
        carry_out(delete, f"{name} is deleted.", forget=forget)
