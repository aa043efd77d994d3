"""Electron levels beside the source's own features: for methods that learn from them."""

from dataclasses import replace

from bandgap.descriptors import MBTRConfig
from bandgap.descriptors.electron_levels import Levels, check_levels, refuse_own_gaps
from bandgap.foundation.errors import ConfigError
from bandgap.transfer import METHODS, Method


def with_levels(descriptor: MBTRConfig, levels: Levels, *, method: Method, level_of_theory: str) -> MBTRConfig:
    """Return the descriptor with electron levels as its last features.

    Raises ConfigError for a method that takes none, InputError for gaps that are of the same kind of calculation.
    """
    if levels == "none":
        return descriptor
    check_levels(levels)
    if not method.levels:
        able = ", ".join(name for name, other in METHODS.items() if other.levels)
        raise ConfigError(f"{method.name} takes no electron levels. Choose {able}, or leave the levels out.")
    refuse_own_gaps(levels, level_of_theory)
    return replace(descriptor, levels=levels)
