"""Python start-up modules for the processes of a test: a process that stays."""

from pathlib import Path

_STAYS = """
import sys
if "--multiprocessing-fork" in sys.orig_argv:
    import threading, time
    threading.Thread(target=time.sleep, args=(120.0,)).start()
"""


def staying_start_up(folder: Path) -> str:
    """Write a start-up module by which a spawned process waits for a thread before it exits."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(_STAYS, encoding="utf-8")
    return str(folder)
