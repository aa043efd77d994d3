"""Buttons that download a file, which is made when it is asked for; when making it fails, the page says why.

Streamlit calls the function of a download button in a thread of its own, in which nothing can be drawn, and tells the
browser no more than that it failed. The press also runs the button's fragment again: it waits for the outcome of that
call, which both share through the session, and shows its message below the button.
"""

import logging
import threading
import time
from collections.abc import Callable

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import words
from bandgap.foundation.csv_tables import csv_text
from bandgap.foundation.errors import BandgapError

log = logging.getLogger(__name__)

START_S = (
    5.0  # until the browser has asked for the file; one that never asks shall not block its page
)
POLL_S = 0.05
_MIME = {"csv": "text/csv", "json": "application/json", "extxyz": "chemical/x-xyz"}


class Attempt:
    """The last attempt to make a file for one button of one session: shared by the page and the thread that makes it.

    `error` is the message of an attempt that failed, empty otherwise.
    """

    def __init__(self) -> None:
        self.error = ""
        self._lock = threading.Lock()
        self._started = self._ended = self._seen = 0

    def make(self, make: Callable[[], bytes], name: str) -> bytes:
        """Return the file that `make` makes; an error is noted, logged and raised again, so that no file is sent."""
        with self._lock:
            self._started += 1
            self.error = ""
        error = ""
        try:
            return make()
        except Exception as problem:
            log.exception("the download %s could not be made", name)
            error = _message(name, problem)
            raise
        finally:
            with self._lock:
                self._ended += 1
                self.error = error

    def wait(self, *, meanwhile: Callable[[], object]) -> None:
        """Wait until the attempt of this press has ended, calling `meanwhile` again and again."""
        deadline = time.monotonic() + START_S
        try:
            while self._ended == self._seen:
                if self._started == self._seen and time.monotonic() > deadline:
                    return
                meanwhile()
                time.sleep(POLL_S)
        finally:  # also when another click of the user interrupts the page
            self._seen = self._started


def csv_button(
    label: str, make: Callable[[], pd.DataFrame], name: str, *, key: str = "", help: str = ""
) -> None:
    """Offer a table, which is made when it is asked for, as a CSV of this name."""
    file_button(label, lambda: csv_text(make()).encode(), name, key=key, help=help)


@st.fragment
def file_button(
    label: str, make: Callable[[], bytes], name: str, *, key: str = "", help: str = ""
) -> None:
    """Offer a file, which is made when it is asked for; its kind is that of the ending of its name."""
    attempt = session.remembered(f"download-{key or label}-{name}", Attempt)
    pressed = st.download_button(
        label,
        data=lambda: attempt.make(make, name),
        file_name=name,
        mime=_MIME[name.rpartition(".")[2]],
        key=key or None,
        help=help or None,
    )
    below = st.empty()
    if pressed:
        attempt.wait(meanwhile=lambda: below.caption("Making the file."))
        below.empty()
    if attempt.error:
        below.error(words.escaped_sentence(attempt.error), icon=":material/error:")


def _message(name: str, problem: Exception) -> str:
    if isinstance(problem, BandgapError):
        return f"{name} was not made: {problem}"
    return (
        f"{name} was not made, because of an error in bandgap ({type(problem).__name__}: "
        f"{problem}). Nothing is lost. Try again; if it fails once more, please report this "
        "message and the server's log."
    )
