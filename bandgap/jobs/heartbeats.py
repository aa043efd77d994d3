"""Heartbeats that processes leave for each other, and what becomes of them when the clock is set.

A heartbeat is a time of day, because processes with different monotonic clocks compare it: those of
before a restart of the machine, and those of other machines. Within a process, intervals are
monotonic. A process notices that the clock was set because the two kinds of time move apart; time
that the machine was suspended counts as such a step on Linux, where the monotonic clock rests then.
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
        moved = _offset() - self._offset
        if abs(moved) < STEP_S:
            return 0.0
        self._offset += moved
        self._set_at = time.monotonic()
        return moved

    def was_set_within(self, seconds: float) -> bool:
        """Return whether a step was noticed in the last `seconds`, now included."""
        self.step()
        return time.monotonic() - self._set_at < seconds


_CLOCK = ClockWatch()


def is_stale(heartbeat: float | None) -> bool:
    """Return whether a heartbeat (time of day, None for none) is of a process that has ended.

    One that lies in the future is stale as well: it is of a process that ended before the clock was
    set back. Shortly after the clock was set, no heartbeat is stale, until it had to be renewed.
    """
    if heartbeat is not None and abs(time.time() - heartbeat) <= STALE_S:
        return False
    return not _CLOCK.was_set_within(RENEWAL_S)
