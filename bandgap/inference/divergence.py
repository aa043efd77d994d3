"""What is done where chains, or networks in training, run away: the same from the beginning, with a shorter step."""

from collections.abc import Callable
from typing import TypeVar

from bandgap.foundation.errors import ConfigError
from bandgap.inference.checkpoints import Checkpoint

T = TypeVar("T")
ATTEMPTS = 4  # of `first_that_stays`


class DivergedError(ConfigError):
    """Chains or networks that went further than a step of theirs may go."""


def first_that_stays(attempt: Callable[[int], T]) -> T | None:
    """Return what the first attempt gives, numbered from 0, that raises no DivergedError: each with a shorter step.

    None where all of `ATTEMPTS` raise it.
    """
    for number in range(ATTEMPTS):
        try:
            return attempt(number)
        except DivergedError:
            continue
    return None


def own_or_part(checkpoint: Checkpoint | None, number: int) -> Checkpoint | None:
    """Return the file of one of several runs or attempts: the first has it alone, the others parts 1, 2, ... of it."""
    return checkpoint if checkpoint is None or not number else checkpoint.of_part(number)
