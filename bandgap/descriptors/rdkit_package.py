"""Whether RDKit is installed, which perceives and describes the bonds of molecules."""

import importlib
import importlib.util
from typing import Any

from bandgap.foundation.errors import ConfigError


def rdkit_is_installed() -> bool:
    """Return whether RDKit is installed, without importing it."""
    return importlib.util.find_spec("rdkit") is not None


def check_rdkit() -> None:
    """Raise ConfigError with what to install if RDKit is missing."""
    if not rdkit_is_installed():
        raise ConfigError(
            "The bonds of molecules need the package rdkit, which is not installed. Install it by "
            "`pip install -c constraints.txt .` in the folder of bandgap's README, "
            "or choose a descriptor or levels without them."
        )


def rdkit_module(name: str = "Chem") -> Any:
    """Return a module of RDKit; raise ConfigError with what to install if it is missing."""
    check_rdkit()
    return importlib.import_module(f"rdkit.{name}")
