"""Progress of a long computation: a callable that receives updates and can cancel the work."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

# Key of an update's values: how fast `done` grows.
RATE: Final = "items a second"


@dataclass(frozen=True)
class Update:
    """State of a long computation.

    Parameters
    ----------
    phase
        What it does now.
    done, total
        Number of finished items and of all items; `total` is None while it is unknown.
    message
        Text for the user.
    values
        Current values by name, such as {"rhat": 1.02}.
    """

    phase: str
    done: int = 0
    total: int | None = None
    message: str = ""
    values: Mapping[str, float] = field(default_factory=dict)


class Progress(Protocol):
    """Called between chunks of work; raises `foundation.errors.Cancelled` to end the work."""

    def __call__(self, update: Update, /) -> None: ...


def no_progress(update: Update, /) -> None:
    """Ignore every update; never cancel."""


def progress_of(name: str, progress: Progress) -> Progress:
    """Return a progress for a part of the work, whose phases start with this name."""

    def note(update: Update, /) -> None:
        progress(replace(update, phase=f"{name}: {update.phase}"))

    return note
