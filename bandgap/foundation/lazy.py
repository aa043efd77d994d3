"""Public names of a package that are imported from their modules when they are first used.

The dashboard uses packages of which other modules import ASE or torch.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def names_of(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package from the module of every public name."""

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return attribute
