"""Progress of a long computation: one callable that takes updates and can say that the work was cancelled."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

RATE: Final = "items a second"  # among an update's values: how fast `done` grows


@dataclass(frozen=True)
class Update:
    """State of a long computation: what it does now and how far it is.

    `total` is None while it is not known. `values` are current figures by name, such as {"rhat": 1.02}.
    """

    phase: str
    done: int = 0
    total: int | None = None
    message: str = ""
    values: Mapping[str, float] = field(default_factory=dict)


class Progress(Protocol):
    """Called between chunks of work; raises `bandgap.foundation.errors.Cancelled` when the work must end."""

    def __call__(self, update: Update, /) -> None: ...


def no_progress(update: Update, /) -> None:
    """Ignore every update; never cancel."""


def progress_of(part: str, progress: Progress) -> Progress:
    """Return a progress for one part of the work: its phases begin with what the part is called."""

    def note(update: Update, /) -> None:
        progress(replace(update, phase=f"{part}: {update.phase}"))

    return note
