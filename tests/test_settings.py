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

# Values of fields without a default.
REQUIRED: dict[str, Any] = {
    "step": 0.01,
    "n_features": 3,
    "species": ("H", "C"),
    "n_labels": 2,
    "seconds": 60.0,
    "n_bytes": 1_000_000,
}
EMPTY = {"DescriptorConfig"}  # Their defaults describe nothing and are refused.
MIN_CLASSES = 50  # The search must find at least so many classes.


def settings_classes() -> Iterator[type]:
    """Yield the dataclasses of the package whose names end with Config or Limits."""
    for module in pkgutil.walk_packages(bandgap.__path__, "bandgap."):
        if module.name.endswith(("__main__", "_child")):  # Scripts.
            continue
        try:
            names = vars(importlib.import_module(module.name)).values()
        except (ImportError, BandgapError):  # An extra is not installed.
            continue
        for value in names:
            is_defined_here = inspect.isclass(value) and value.__module__ == module.name
            if not is_defined_here or not dataclasses.is_dataclass(value):
                continue
            if value.__name__.endswith(("Config", "Limits")):
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
    assert len(constructed) >= MIN_CLASSES
