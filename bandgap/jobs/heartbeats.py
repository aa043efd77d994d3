"""Heartbeats of processes, and how they are read after the clock was set.

A heartbeat is a time of day, because processes with different monotonic clocks compare it: on other
machines, and before a restart of the machine. Within a process, intervals are monotonic. A process
notices that the clock was set when the difference of the two times changes. On Linux, a suspension
of the machine counts as such a step, as the monotonic clock then stops.
"""

import math
import time

STALE_S = 20.0  # a heartbeat older than this belongs to a dead process; it is renewed every 2 s
STEP_S = 1.0  # smaller steps of the clock do not matter
RENEWAL_S = 6.0  # after a step, until every living process has renewed its heartbeat


def _offset() -> float:
    return time.time() - time.monotonic()


class ClockWatch:
    """Notices when the clock of the machine is set."""

    def __init__(self) -> None:
        self._offset = _offset()
        self._set_at = -math.inf  # monotonic time at which the last step was noticed

    def step(self) -> float:
        """Return by how many seconds the clock was set since the last call, 0 where it was not."""
        step = _offset() - self._offset
        if abs(step) < STEP_S:
            return 0.0
        self._offset += step
        self._set_at = time.monotonic()
        return step

    def was_set_within(self, seconds: float) -> bool:
        """Return whether a step was noticed in the last `seconds`; this call looks for one too."""
        self.step()
        return time.monotonic() - self._set_at < seconds


_CLOCK = ClockWatch()


def is_stale(heartbeat: float | None) -> bool:
    """Return whether a heartbeat (time of day, None for none) is of a process that has ended.

    A heartbeat in the future is stale too: its process ended before the clock was set back. For
    `RENEWAL_S` after the clock was set, no heartbeat is stale.
    """
    if heartbeat is not None and abs(time.time() - heartbeat) <= STALE_S:
        return False
    return not _CLOCK.was_set_within(RENEWAL_S)
