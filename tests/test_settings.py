"""Every settings class of the package accepts its defaults, and nothing beyond its limits."""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

import bandgap
from bandgap.descriptors.block_settings import Soap
from bandgap.foundation.config import Candidates, Settings, accepted, bounds, field_hints
from bandgap.foundation.errors import BandgapError, ConfigError
from bandgap.predictions.window import Window
from bandgap.transfer import METHODS

# Values of fields without a default.
REQUIRED: dict[str, Any] = {
    "step": 0.01,
    "n_features": 3,
    "columns": ("a",),
    "centres": (0.0,),
    "scales": (1.0,),
    "file": "own.csv",
    "sha256": "",
    "species": ("H", "C"),
    "n_labels": 2,
    "seconds": 60.0,
    "n_bytes": 1_000_000,
    "path": Path("run"),
    "matrices": (),
    "every": 1,
    "function": "distance",
    "minimum": 0.0,
    "maximum": 1.0,
    "n": 10,
    "sigma": 0.1,
    "window": Window(1.0, 2.0),
}
# Settings without which a class describes nothing.
NEEDED: dict[str, dict[str, Any]] = {"DescriptorConfig": {"soap": Soap()}}
MIN_CLASSES = 50  # The search must find at least so many classes,
MIN_REFUSED = 300  # and so many values that they refuse.


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
            if value.__name__.endswith(("Config", "Limits")) or issubclass(value, Settings):
                yield value


def with_defaults(settings: type) -> Any:
    """Return an instance with its defaults, and with a value for each field that has none."""
    fields = dataclasses.fields(settings)
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    return settings(
        **{name: REQUIRED[name] for name in required}, **NEEDED.get(settings.__name__, {})
    )


def refused_values(hint: Any, limits: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield values that an annotation refuses: of another type, and beyond each of its limits."""
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is Annotated:
        yield from refused_values(arguments[0], (*arguments[1:], *limits))
    elif origin in (types.UnionType, Union):
        for argument in arguments:
            yield from refused_values(argument, limits)
    elif origin is tuple:
        yield from ((value,) for value in refused_values(arguments[0]))
        if limits:
            yield ()
        if hint == get_args(Candidates)[0] and len(limits) > 1:
            yield (1.0, 1.0)
    elif hint in (bool, int, float) or origin is Literal or dataclasses.is_dataclass(hint):
        yield "no such value"
    if hint in (int, float):
        yield True
        yield from beyond(bounds(limits), is_whole=hint is int)


def beyond(limits: dict[str, float], *, is_whole: bool) -> Iterator[float]:
    """Yield a number beyond each limit."""
    steps = {"ge": -1, "gt": 0, "le": 1, "lt": 0}
    for name, bound in limits.items():
        yield int(bound) + steps[name] if is_whole else bound + 0.01 * steps[name]
    if limits:
        yield from (math.nan, math.inf)


def settings_below(
    settings: type, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and annotation of every setting, those of nested classes included."""
    for name, hint in field_hints(settings).items():
        if dataclasses.is_dataclass(hint):
            yield from settings_below(hint, (*path, name))
        else:
            yield (*path, name), hint


@pytest.fixture(scope="module")
def classes() -> list[type]:
    return list(settings_classes())


def test_every_settings_class_accepts_its_defaults(classes: list[type]) -> None:
    for settings in classes:
        try:
            with_defaults(settings)
        except BandgapError as error:
            pytest.fail(f"{settings.__module__}.{settings.__name__} refuses its defaults: {error}")
    assert len(classes) >= MIN_CLASSES


def test_every_value_beyond_a_limit_is_refused_with_its_field(classes: list[type]) -> None:
    n_refused = 0
    for settings in (cls for cls in classes if issubclass(cls, Settings)):
        for name, hint in field_hints(settings).items():
            place = rf"^{settings.__name__}\.{name}: found .*Accepted: {re.escape(accepted(hint))}"
            for value in refused_values(hint):
                with pytest.raises(ConfigError, match=place):
                    dataclasses.replace(with_defaults(settings), **{name: value})
                n_refused += 1
    assert n_refused >= MIN_REFUSED


@pytest.mark.parametrize("method", METHODS)
def test_setting_of_a_method_is_refused_with_its_place(method: str) -> None:
    for path, hint in settings_below(METHODS[method].config):
        place = re.escape(".".join((method, *path)))
        for value in refused_values(hint):
            settings: Any = value
            for name in reversed(path):
                settings = {name: settings}
            with pytest.raises(ConfigError, match=f"^{place}: found .*Accepted: "):
                METHODS[method].configure(settings)
