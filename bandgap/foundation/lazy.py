"""Public names of a package, imported from their modules when they are first used, so that the rest stays light.

Pages read names and files of packages whose other modules load ase or torch.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def names_of(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package: the module of every public name, by name."""

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return attribute
