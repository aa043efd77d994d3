"""Attempts with shorter steps: the first without divergence counts, and files are separate."""

import pytest

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.inference.divergence import (
    ATTEMPTS,
    DivergedError,
    first_that_stays,
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
