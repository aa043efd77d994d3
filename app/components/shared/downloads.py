"""Download buttons whose file is made on request; when that fails, the page shows the reason.

Streamlit calls the function of a download button in a separate thread. There is no session in it:
what the function needs of one, such as the workspace, the page reads before. Nothing can be drawn
there, and the browser learns only that the call failed. The press also runs the button's fragment
again.
The fragment waits for the result of the call, which it reads from the session, and shows the error
message below the button.
"""

import logging
import mimetypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st

from app import session, visitors
from app.components.shared import stores, tables, words
from bandgap.foundation.csv_tables import csv_text
from bandgap.foundation.errors import BandgapError

log = logging.getLogger(__name__)

# Time to wait for the browser's request of the file; without a limit a browser that never requests
# it would block the page.
START_S = 5.0
POLL_S = 0.05


class Attempt:
    """The last attempt to make the file of one button in one session.

    The page and the thread that makes the file share it. `error` is the message of a failed
    attempt, otherwise empty.
    """

    def __init__(self) -> None:
        self.error = ""
        self._has_begun = threading.Event()
        self._has_ended = threading.Event()

    def make(self, make: Callable[[], bytes], name: str) -> bytes:
        """Return the file that `make` returns.

        An error is stored, logged and raised again, so that no file is sent.
        """
        self.error = ""
        self._has_begun.set()
        try:
            return make()
        except Exception as problem:
            log.exception("the download %s could not be made", name)
            self.error = _message(name, problem)
            raise
        finally:
            self._has_ended.set()

    def wait(self, *, meanwhile: Callable[[], object]) -> None:
        """Wait until the attempt of this press has ended; call `meanwhile` repeatedly."""
        deadline = time.monotonic() + START_S
        while not self._has_ended.wait(POLL_S):
            meanwhile()  # ends this run of the page where another click of the user came
            if not self._has_begun.is_set() and time.monotonic() > deadline:
                return
        self._has_begun.clear()
        self._has_ended.clear()


def csv_button(label: str, make: Callable[[], pd.DataFrame], name: str, **options: Any) -> None:
    """Offer a table as a CSV file of this name, as `file_button` does."""
    file_button(label, lambda: csv_text(make()).encode(), name, **options)


def table_with_csv(
    table: pd.DataFrame,
    name: str,
    *,
    alt: str,
    columns: Mapping[str, Any] | None = None,
    rows: int = 12,
    pictures: Sequence[str | None] = (),
) -> None:
    """Draw a table as `tables.show` does, and below it the button for its CSV of this name.

    The first column is that of the addresses of pictures, if there are any; the CSV is without it.
    """
    drawn_table = tables.with_pictures(table, pictures) if pictures else table
    tables.show(drawn_table, alt=alt, columns=columns, rows=rows)
    table_csv(lambda: table, name)


def table_csv(make: Callable[[], pd.DataFrame], name: str) -> None:
    """Offer the table above as a CSV file of this name, by a button without a border."""
    csv_button("Download the table (CSV)", make, name, key=f"csv-{name}", kind="tertiary")


@st.fragment
def file_button(
    label: str,
    make: Callable[[], bytes],
    name: str,
    *,
    key: str = "",
    help: str = "",
    kind: Literal["primary", "secondary", "tertiary"] = "secondary",
) -> None:
    """Offer a file that `make` makes on request, without a session.

    The suffix of its name determines the MIME type.
    """
    workspace = session.workspace()
    person = visitors.person()

    def make_checked() -> bytes:
        stores.checked_access(workspace, person)
        return make()

    attempt: Attempt = st.session_state.setdefault(f"download-{key or label}-{name}", Attempt())
    pressed = st.download_button(
        label,
        data=lambda: attempt.make(make_checked, name),
        file_name=name,
        mime=mimetypes.guess_type(name)[0] or "chemical/x-xyz",
        key=key or None,
        help=help or None,
        type=kind,
        icon=None if kind == "secondary" else ":material/download:",
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
