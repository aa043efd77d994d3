"""Python start-up modules for the processes of a test: a clock to set, a process that stays."""

from pathlib import Path

_CLOCK = """
import time
_true = time.time
def _set_clock():
    try:
        with open({file!r}) as opened:
            return _true() + float(opened.read() or 0)
    except OSError:
        return _true()
time.time = _set_clock
"""
_STAYS = """
import sys
if "--multiprocessing-fork" in sys.orig_argv:
    import threading, time
    threading.Thread(target=time.sleep, args=(120.0,)).start()
"""


def clock_start_up(folder: Path, *, file: Path) -> str:
    """Write a module that moves the time of day by the seconds in a file; return its folder."""
    return _written(folder, _CLOCK.format(file=str(file)))


def staying_start_up(folder: Path) -> str:
    """Write a start-up module by which a spawned process waits for a thread before it exits."""
    return _written(folder, _STAYS)


def _written(folder: Path, text: str) -> str:
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return str(folder)
