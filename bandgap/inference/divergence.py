"""Restarts with a shorter step where chains, or networks in training, diverge."""

from collections.abc import Callable
from typing import TypeVar

from bandgap.foundation.errors import ConfigError
from bandgap.inference.checkpoints import Checkpoint

T = TypeVar("T")
ATTEMPTS = 4  # of `first_that_stays`


class DivergedError(ConfigError):
    """Chains or networks that moved further than one step may move."""


def first_that_stays(attempt: Callable[[int], T]) -> T | None:
    """Return the result of the first attempt that does not diverge.

    `attempt` is called with 0, 1, ... and takes a shorter step for every larger number. None if all
    `ATTEMPTS` raise DivergedError.
    """
    for number in range(ATTEMPTS):
        try:
            return attempt(number)
        except DivergedError:
            continue
    return None


def part_of_checkpoint(checkpoint: Checkpoint | None, number: int) -> Checkpoint | None:
    """Return the file of one of several runs or attempts.

    Number 0 has the file itself, numbers 1, 2, ... have parts of it (`Checkpoint.of_part`).
    """
    if checkpoint is None or number == 0:
        return checkpoint
    return checkpoint.of_part(number)
