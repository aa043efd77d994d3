"""Frozen dataclasses to and from plain dicts, and their fingerprints."""

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.settings import check_value, field_hints

T = TypeVar("T")
# Metadata of a field that is stored elsewhere, or not at all.
STORED_ELSEWHERE: Final = {"stored_elsewhere": True}
# Metadata of a field that is stored only if it differs from its default. For a setting that is new,
# so that the fingerprints of stored sources, runs and comparisons do not change.
STORED_UNLESS_DEFAULT: Final = {"stored_unless_default": True}


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass instance as nested plain values for JSON (tuples become lists).

    A field with the metadata STORED_ELSEWHERE is left out, and one with STORED_UNLESS_DEFAULT if
    it has its default.
    """
    values = {
        field: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if "stored_elsewhere" not in field.metadata
    }
    return {
        field.name: _plain(value)
        for field, value in values.items()
        if "stored_unless_default" not in field.metadata or value != field.default
    }


def from_dict(cls: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """Build the dataclass `cls` from plain values; absent keys keep their defaults.

    None for a float is NaN, as in manifests.

    Parameters
    ----------
    cls
        The dataclass.
    values
        Values by the name of the field.
    where
        Name of the place in error messages; by default the name of the class.

    Raises
    ------
    ConfigError
        For a key that `cls` does not have, for a value of another type, and if a key without
        default is absent.
    """
    kind: Any = cls
    place = where or cls.__name__
    fields = {f.name: f for f in dataclasses.fields(kind)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ConfigError(
            f"{place}: unknown setting {unknown[0]!r}. Accepted: {', '.join(sorted(fields))}."
        )
    hints = field_hints(kind)
    built = {
        name: _built(hints[name], value, where=f"{place}.{name}") for name, value in values.items()
    }
    for name, value in built.items():
        check_value(hints[name], value, where=f"{place}.{name}")
    missing = [n for n, f in fields.items() if n not in built and _has_no_default(f)]
    if missing:
        raise ConfigError(f"{place}: setting {missing[0]!r} is missing.")
    return cls(**built)


def fingerprint(value: Any) -> str:
    """Return 16 hexadecimal digits of SHA-256 over the canonical JSON of a dataclass or value."""
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _has_no_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _built(hint: Any, value: Any, *, where: str) -> Any:
    """Return a value of JSON in the form of the annotation; what has no such form is unchanged."""
    if hint is float and value is None:
        return math.nan
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        # At most one type of a union is a dataclass or a tuple.
        forms = arguments if isinstance(value, (Mapping, list)) else ()
        return functools.reduce(lambda v, form: _built(form, v, where=where), forms, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Mapping) and dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value, where=where)
    if isinstance(value, (list, tuple)) and origin is tuple:
        is_long = len(arguments) == 2 and arguments[1] is Ellipsis
        return tuple(_built(arguments[0], v, where=where) if is_long else v for v in value)
    return value
