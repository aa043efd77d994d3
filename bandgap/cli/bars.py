"""Progress bars on stderr, driven by the same `Progress` calls that the dashboard's worker receives."""

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from bandgap.cli.report import duration
from bandgap.foundation.progress import RATE, Progress, Update

EVERY_S = 30.0  # between two lines on a rate


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Yield a `Progress`: one bar for every phase on a terminal, one line for every phase elsewhere."""
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
    """A bar for each phase; a phase that comes back (chains one after the other) goes on with its bar."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, update: Update, /) -> None:
        if update.phase not in self._tasks:
            self._tasks[update.phase] = self._bars.add_task(update.phase, total=update.total, figures="")
        figures = "  ".join(f"{name} {value:.3g}" for name, value in update.values.items() if name != RATE)
        figures = pace(update) if RATE in update.values else figures or update.message
        self._bars.update(self._tasks[update.phase], completed=update.done, total=update.total, figures=figures)


class _PhaseLines:
    """For logs and pipes: one line when a phase begins for the first time, and now and then one on its rate.

    What a phase that is no count says of itself is in its line.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._said = time.monotonic()

    def __call__(self, update: Update, /) -> None:
        if update.phase not in self._seen:
            self._seen.add(update.phase)
            total = f" ({update.total:,})" if update.total else ""
            said = f": {update.message}" if update.message and not update.total else ""
            self._say(f"{update.phase}{total}{said}")
        elif RATE in update.values and update.total and time.monotonic() - self._said >= EVERY_S:
            self._say(f"{update.phase}: {update.done:,} of {update.total:,}, {pace(update)}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the command line's own output


class EpochClock:
    """A progress that also takes the time of every step of one phase, such as the epochs of a training.

    An update that repeats the count of the one before, as of a batch, is inside a step.
    """

    def __init__(self, progress: Progress, phase: str) -> None:
        self._progress, self._phase = progress, phase
        self._at, self._last = time.perf_counter(), ("", 0)
        self.seconds: list[float] = []

    def __call__(self, update: Update, /) -> None:
        now, at = time.perf_counter(), (update.phase, update.done)
        if at != self._last:
            if update.phase == self._phase and update.done:
                self.seconds.append(now - self._at)
            self._at, self._last = now, at
        self._progress(update)

    @property
    def sentence(self) -> str:
        """Say how many epochs there were, and how long one took; "" where there were none."""
        if not self.seconds:
            return ""
        middle = statistics.median(self.seconds[1:] or self.seconds)  # the first begins with what comes before it
        return f"{len(self.seconds):,} epochs, {duration(middle)} each (median)"


def pace(update: Update) -> str:
    """Return the rate of an update that has one, and the time that is left at this rate."""
    rate = update.values[RATE]
    left = (update.total or update.done) - update.done
    words = f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2g} a second"
    return f"{words}, about {duration(left / rate)} left" if rate > 0 and left else words
