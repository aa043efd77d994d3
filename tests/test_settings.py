"""Every settings class of the package can be constructed with its defaults."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import bandgap
from bandgap.foundation.errors import BandgapError, ConfigError

REQUIRED: dict[str, Any] = {
    "step": 0.01,
    "n_features": 3,
    "species": ("H", "C"),
}  # fields without a default
EMPTY = {"DescriptorConfig"}  # a descriptor of nothing, which is refused
MANY = 50  # settings classes at least, so that the search is known to find them


def settings_classes() -> Iterator[type]:
    """Yield every dataclass of the package whose name says that it has settings."""
    for module in pkgutil.walk_packages(bandgap.__path__, "bandgap."):
        if module.name.endswith(("__main__", "_child")):  # scripts
            continue
        try:
            names = vars(importlib.import_module(module.name)).values()
        except (ImportError, BandgapError):  # of an extra that is not installed
            continue
        for value in names:
            is_own = inspect.isclass(value) and value.__module__ == module.name
            if (
                is_own
                and dataclasses.is_dataclass(value)
                and value.__name__.endswith(("Config", "Limits"))
            ):
                yield value


def test_every_settings_class_accepts_its_defaults() -> None:
    constructed = []
    for settings in settings_classes():
        if settings.__name__ in EMPTY:
            with pytest.raises(ConfigError):
                settings()
            continue
        missing = {
            field.name: REQUIRED[field.name]
            for field in dataclasses.fields(settings)
            if field.init
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        }
        try:
            constructed.append(settings(**missing))
        except BandgapError as error:
            pytest.fail(f"{settings.__module__}.{settings.__name__} refuses its defaults: {error}")
    assert len(constructed) >= MANY
