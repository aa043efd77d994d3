"""Names and objects that are imported from their modules when they are first used.

The dashboard uses packages of which other modules import ASE or torch, and a command needs one of
many methods, blocks or formats. Other packages add to a registry by entry points.
"""

import importlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from bandgap.foundation.errors import ConfigError

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
    objects
        Where each object is, as "module:name".
    group
        Entry points of this group, of any installed package, are further objects. The metadata of
        the packages are read where a name is not among `objects`, or all names are listed.
        The access to one that cannot be imported raises ConfigError.
    """

    def __init__(self, objects: Mapping[str, str], *, group: str = "") -> None:
        self._objects = dict(objects)
        self._group = group

    @cached_property
    def _all_objects(self) -> Mapping[str, str]:
        points = importlib.metadata.entry_points(group=self._group) if self._group else ()
        return self._objects | {
            point.name: point.value for point in points if point.name not in self._objects
        }

    def __getitem__(self, name: str) -> T:
        if name in self._objects:
            return self._imported(self._objects[name])
        path = self._all_objects[name]
        try:
            return self._imported(path)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the entry point {name} = {path!r} of the group {self._group} cannot be imported: "
                f"{error}. Correct it in the package that declares it, or install that again."
            ) from error

    def _imported(self, path: str) -> T:
        module, _, attribute = path.partition(":")
        value: T = getattr(importlib.import_module(module), attribute)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._objects or name in self._all_objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._all_objects)

    def __len__(self) -> int:
        return len(self._all_objects)
