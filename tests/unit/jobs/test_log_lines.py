"""The limit on a server's log: lines over it are left out and counted in the log."""

import io
import logging

from bandgap.jobs.log_lines import LINE_CHARACTERS, LimitedLog


def test_lines_over_the_limit_are_left_out_for_a_minute_and_counted() -> None:
    now = [0.0]
    stream = io.StringIO()
    log = LimitedLog(stream, lines_a_minute=3, clock=lambda: now[0])
    for number in range(100):
        log.write(f"line {number}\n")
    notice = "More than 3 lines of log in a minute: the next ones are left out.\n"
    assert stream.getvalue() == f"line 0\nline 1\nline 2\n{notice}"
    now[0] = 61.0
    log.write("later\n")
    assert stream.getvalue().endswith(f"{notice}97 lines of log were left out.\nlater\n")


def test_long_line_is_cut() -> None:
    stream = io.StringIO()
    LimitedLog(stream).write("x" * 1_000_000 + "\n")
    assert stream.getvalue() == "x" * LINE_CHARACTERS + " ...\n"


def test_handler_of_logging_writes_through_it() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(LimitedLog(stream, lines_a_minute=2))
    for _ in range(5):
        handler.emit(logging.LogRecord("name", logging.WARNING, __file__, 1, "message", None, None))
    assert stream.getvalue().count("message\n") == 2
