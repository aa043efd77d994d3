"""The kinds of interval and their permitted probabilities; imports no large package."""

import numbers
from typing import Literal, get_args

from bandgap.foundation.errors import ConfigError, quoted

IntervalKind = Literal["prediction", "credible", "conformal"]
INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)


def check_kind(kind: str) -> None:
    """Raise ConfigError for an unknown kind of interval."""
    if kind not in INTERVAL_KINDS:
        raise ConfigError(
            f"interval is {quoted(str(kind))}. Accepted: prediction (of a new gap), credible (of "
            "the mean), conformal (of a new gap, by held-back structures)."
        )


def check_level(level: float) -> float:
    """Return the level.

    Raises ConfigError if it is not a number from 0.01 to 0.99, the range of the 199 stored
    quantiles.
    """
    if isinstance(level, bool) or not isinstance(level, numbers.Real):
        raise ConfigError(f"level is {level!r}. Accepted: 0.01 to 0.99, such as 0.95.")
    if not 0.01 - 1e-9 <= level <= 0.99 + 1e-9:
        hint = f" For {level:g} % write {level / 100:g}." if 1 <= level <= 99 else ""
        raise ConfigError(f"level is {level:g}. Accepted: 0.01 to 0.99, such as 0.95.{hint}")
    return level
