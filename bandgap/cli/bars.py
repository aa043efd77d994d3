"""Progress bars on stderr, driven by the same `Progress` calls that the dashboard's worker receives."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from bandgap.foundation.progress import Progress, Update


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
        figures = "  ".join(f"{name} {value:.3g}" for name, value in update.values.items()) or update.message
        self._bars.update(self._tasks[update.phase], completed=update.done, total=update.total, figures=figures)


class _PhaseLines:
    """One line when a phase begins for the first time, for logs and pipes."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, update: Update, /) -> None:
        if update.phase not in self._seen:
            self._seen.add(update.phase)
            total = f" ({update.total:,})" if update.total else ""
            print(f"{update.phase}{total}", file=sys.stderr, flush=True)  # noqa: T201 - the command line's own output
