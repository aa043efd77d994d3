"""Attempts with shorter steps: the first without divergence counts, and files are separate."""

from pathlib import Path

import pytest

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import (
    ATTEMPTS,
    DivergedError,
    first_that_stays,
    part_of_checkpoint,
)


@pytest.mark.parametrize("n_diverging", range(ATTEMPTS))
def test_first_attempt_without_divergence_is_the_result(n_diverging):
    tried = []

    def attempt(number):
        tried.append(number)
        if number < n_diverging:
            raise DivergedError(f"attempt {number}")
        return f"draws of {number}"

    assert first_that_stays(attempt) == f"draws of {n_diverging}"
    assert tried == list(range(n_diverging + 1))


def test_attempts_that_all_diverge_give_none_and_other_errors_are_raised():
    def never(number):
        raise DivergedError(str(number))

    def broken(number):
        raise InputError(f"row {number}")

    assert first_that_stays(never) is None
    with pytest.raises(InputError, match="row 0"):
        first_that_stays(broken)
    assert issubclass(DivergedError, ConfigError)  # a setting is what a user can change


def test_every_attempt_has_a_separate_file():
    file = Checkpoint(Path("chains.safetensors"), every=7)
    parts = [part_of_checkpoint(file, number) for number in range(ATTEMPTS)]
    assert parts[0] == file
    assert len({part.path for part in parts}) == ATTEMPTS and {part.every for part in parts} == {7}
    assert part_of_checkpoint(None, 2) is None
