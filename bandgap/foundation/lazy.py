"""Names and objects that are imported from their modules when they are first used.

The dashboard uses packages of which other modules import ASE or torch, and a command needs one of
many methods, blocks or formats.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def names_of(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package from the module of every public name."""

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return attribute


class Registry(Mapping[str, T]):
    """Objects by name, each in a module that is imported on the first access to the object.

    Parameters
    ----------
    modules
        Dotted name of the module of each object.
    attribute
        Name of the object in its module.
    """

    def __init__(self, modules: Mapping[str, str], *, attribute: str) -> None:
        self._modules = dict(modules)
        self._attribute = attribute

    def __getitem__(self, name: str) -> T:
        value: T = getattr(importlib.import_module(self._modules[name]), self._attribute)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
