"""A limit on the lines that a server logs in a minute, so that requests do not fill the disk."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO, cast

LINES_A_MINUTE = 300
LINE_CHARACTERS = 2_000
WINDOW_S = 60.0


def limited_stderr() -> contextlib.AbstractContextManager[TextIO]:
    """Limit what is written to `sys.stderr` in this context."""
    return contextlib.redirect_stderr(cast("TextIO", LimitedLog(sys.stderr)))


class LimitedLog:
    """A text stream that leaves out lines over the limit and writes their number.

    The handlers of `logging` write one record, of one line or of many, by one call.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        lines_a_minute: int = LINES_A_MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._limit = lines_a_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._window_start = clock()
        self._n_lines = 0
        self._n_left_out = 0

    def write(self, text: str) -> int:
        """Write the text, or count its lines where the limit is reached; return its length."""
        n_lines = text.count("\n")
        with self._lock:
            self._start_window()
            if self._n_left_out or self._n_lines + n_lines > self._limit:
                if not self._n_left_out:
                    self._stream.write(
                        f"More than {self._limit:,} lines of log in a minute: "
                        "the next ones are left out.\n"
                    )
                self._n_left_out += n_lines
            else:
                self._n_lines += n_lines
                self._stream.write(_shortened(text, LINE_CHARACTERS * max(n_lines, 1)))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the stream's file descriptor."""
        return self._stream.fileno()

    def _start_window(self) -> None:
        now = self._clock()
        if now - self._window_start < WINDOW_S:
            return
        if self._n_left_out:
            self._stream.write(f"{self._n_left_out:,} lines of log were left out.\n")
        self._window_start = now
        self._n_lines = 0
        self._n_left_out = 0


def _shortened(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[:max_length]} ...\n"
