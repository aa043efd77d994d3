"""Whether RDKit is installed, which perceives and describes the bonds of molecules."""

import importlib
import importlib.util
from typing import Any

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.extras import not_installed


def rdkit_is_installed() -> bool:
    """Return whether RDKit is installed, without importing it."""
    return importlib.util.find_spec("rdkit") is not None


def check_rdkit() -> None:
    """Raise ConfigError with what to install if RDKit is missing."""
    if not rdkit_is_installed():
        raise _missing()


def rdkit_module(name: str = "Chem") -> Any:
    """Return a module of RDKit; raise ConfigError with what to install if it is missing."""
    # Called for every molecule, so that the package is not searched for first.
    try:
        return importlib.import_module(f"rdkit.{name}")
    except ImportError:
        raise _missing() from None


def _missing() -> ConfigError:
    end = ", or choose a descriptor or levels without them"
    return not_installed("Finding molecules and their bonds", "rdkit", end=end)
