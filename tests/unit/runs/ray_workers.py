"""Workers of Ray on this machine, which are killed while they compute; Ray replaces them."""

import contextlib
from dataclasses import dataclass


@dataclass
class RayWorkers:
    """The processes that a Ray of this process has started."""

    killed: int = 0

    def kill_one(self) -> None:
        """Kill one that computes something of ours; nothing where none does at the moment."""
        import psutil

        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
                if " ".join(process.cmdline()[:1]).startswith("ray::_inside"):
                    process.kill()
                    self.killed += 1
                    return
