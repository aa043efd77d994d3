"""Attempts with shorter steps: the first that stays counts, others' errors are not hidden, files are apart."""

from pathlib import Path

import pytest

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import ATTEMPTS, DivergedError, first_that_stays, own_or_part


@pytest.mark.parametrize("lasting", range(ATTEMPTS))
def test_first_attempt_that_stays_is_the_answer(lasting):
    tried = []

    def attempt(number):
        tried.append(number)
        if number < lasting:
            raise DivergedError(f"attempt {number}")
        return f"draws of {number}"

    assert first_that_stays(attempt) == f"draws of {lasting}"
    assert tried == list(range(lasting + 1))


def test_there_is_no_answer_where_none_stays_and_another_error_ends_it():
    def never(number):
        raise DivergedError(str(number))

    def broken(number):
        raise InputError(f"row {number}")

    assert first_that_stays(never) is None
    with pytest.raises(InputError, match="row 0"):
        first_that_stays(broken)
    assert issubclass(DivergedError, ConfigError)  # a setting is what a user can change


def test_every_attempt_has_a_file_of_its_own():
    whole = Checkpoint(Path("chains.safetensors"), every=7)
    parts = [own_or_part(whole, number) for number in range(ATTEMPTS)]
    assert parts[0] == whole
    assert len({part.path for part in parts}) == ATTEMPTS and {part.every for part in parts} == {7}
    assert own_or_part(None, 2) is None
