"""RDKit, which perceives and describes the bonds of molecules; it is imported when it is used."""

import importlib
from typing import Any


def rdkit_module(name: str = "Chem") -> Any:
    """Return a module of RDKit."""
    return importlib.import_module(f"rdkit.{name}")
