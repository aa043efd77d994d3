"""What every deletion, new name and start has in common: the problem, or what was done, on the page drawn anew."""

from collections.abc import Callable

import session
import streamlit as st

from bandgap.foundation.errors import BandgapError
from components.shared import frame, words


def carry_out(action: Callable[[], object], told: str = "", *, forget: session.Choice | None = None) -> None:
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
