"""Progress bars on stderr, from the same `Progress` calls as in the worker of the dashboard."""

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from bandgap.foundation.progress import RATE, Progress, Update

EVERY_S = 30.0  # between two lines on the rate


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a `Progress`: one bar per phase on a terminal, one line per phase elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _PhaseLines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Bars(*columns, console=console) as bars:
        yield _PhaseBars(bars)


class _PhaseBars:
    """One bar for each phase; a repeated phase, such as sampling a chain, reuses its bar."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, update: Update, /) -> None:
        if update.phase not in self._tasks:
            self._tasks[update.phase] = self._bars.add_task(
                update.phase, total=update.total, figures=""
            )
        figures = "  ".join(
            f"{name} {value:.3g}" for name, value in update.values.items() if name != RATE
        )
        figures = pace(update) if RATE in update.values else figures or update.message
        self._bars.update(
            self._tasks[update.phase], completed=update.done, total=update.total, figures=figures
        )


class _PhaseLines:
    """For logs and pipes: a line when a phase starts, and one on its rate every `EVERY_S` seconds.

    The line of a phase without a total also contains its message.
    """

    def __init__(self) -> None:
        self._printed_phases: set[str] = set()
        self._last_line_at = time.monotonic()

    def __call__(self, update: Update, /) -> None:
        if update.phase not in self._printed_phases:
            self._printed_phases.add(update.phase)
            total = f" ({update.total:,})" if update.total else ""
            message = f": {update.message}" if update.message and not update.total else ""
            self._print(f"{update.phase}{total}{message}")
        elif (
            RATE in update.values
            and update.total
            and time.monotonic() - self._last_line_at >= EVERY_S
        ):
            self._print(f"{update.phase}: {update.done:,} of {update.total:,}, {pace(update)}")

    def _print(self, line: str) -> None:
        self._last_line_at = time.monotonic()
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the command line's own output


class EpochClock:
    """A progress that also measures every step of one phase, such as the epochs of a training.

    An update with the same count as the one before, such as one for a batch, belongs to the same
    step.
    """

    def __init__(self, progress: Progress, phase: str) -> None:
        self._progress = progress
        self._phase = phase
        self._step_start = time.perf_counter()
        self._last_step = ("", 0)
        self.seconds: list[float] = []

    def __call__(self, update: Update, /) -> None:
        now = time.perf_counter()
        step = (update.phase, update.done)
        if step != self._last_step:
            if update.phase == self._phase and update.done:
                self.seconds.append(now - self._step_start)
            self._step_start = now
            self._last_step = step
        self._progress(update)

    @property
    def sentence(self) -> str:
        """The number of epochs and their median time, "" if there were none."""
        if not self.seconds:
            return ""
        # the first epoch includes the time before it
        median = statistics.median(self.seconds[1:] or self.seconds)
        return f"{len(self.seconds):,} epochs, {duration(median)} each (median)"


def pace(update: Update) -> str:
    """Return the rate of an update that has one, and the remaining time at this rate."""
    rate = update.values[RATE]
    n_remaining = (update.total or update.done) - update.done
    text = f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2g} a second"
    return (
        f"{text}, about {duration(n_remaining / rate)} left" if rate > 0 and n_remaining else text
    )


def duration(seconds: float) -> str:
    """Return a time with units: 8.2 s, 2 min 10 s, 1 h 5 min.

    >>> duration(8.21), duration(130.4), duration(3900)
    ('8.2 s', '2 min 10 s', '1 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return (
        f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    )
