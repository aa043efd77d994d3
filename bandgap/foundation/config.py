"""Frozen dataclasses to and from plain dicts, and their fingerprints."""

import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from bandgap.foundation.errors import ConfigError

T = TypeVar("T")
# Metadata of a field that is stored elsewhere, or not at all.
STORED_ELSEWHERE: Final = {"stored_elsewhere": True}
# Metadata of a field that is stored only if it differs from its default. For a setting that is new,
# so that the fingerprints of stored sources, runs and comparisons do not change.
STORED_UNLESS_DEFAULT: Final = {"stored_unless_default": True}

_TYPE_NAMES: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
}


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
    place = where or cls.__name__
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ConfigError(
            f"{place}: unknown setting {unknown[0]!r}. Accepted: {', '.join(sorted(fields))}."
        )
    hints = typing.get_type_hints(cls)
    built = {
        name: _build(hints[name], value, where=f"{place}.{name}") for name, value in values.items()
    }
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


def _build(hint: Any, value: Any, *, where: str) -> Any:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _build_optional(arguments, value, where=where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_dict(hint, value, where=where)
    if origin is tuple and isinstance(value, (list, tuple)):
        item_hint = arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else None
        return tuple(_build(item_hint, v, where=where) if item_hint else v for v in value)
    if origin is typing.Literal and value not in arguments:
        raise ConfigError(f"{where}: found {value!r}. Accepted: {', '.join(map(str, arguments))}.")
    if hint is float and value is None:
        return math.nan
    if hint in _TYPE_NAMES or origin is tuple or dataclasses.is_dataclass(hint):
        return _checked(hint, value, where=where)
    return value


def _build_optional(arguments: tuple[Any, ...], value: Any, *, where: str) -> Any:
    """Build a value of a union, of which at most one type is a dataclass or a tuple."""
    if value is None:
        return None
    structured = [
        a for a in arguments if dataclasses.is_dataclass(a) or typing.get_origin(a) is tuple
    ]
    if structured and isinstance(value, (dict, list)):
        return _build(structured[0], value, where=where)
    return value


def _checked(hint: Any, value: Any, *, where: str) -> Any:
    """Return a value of the plain type or dataclass `hint`; raise ConfigError for another type."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is float and is_number:
        return float(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        is_accepted = isinstance(value, hint)
    elif hint is int:
        is_accepted = isinstance(value, int) and is_number
    else:
        is_accepted = hint in _TYPE_NAMES and isinstance(value, hint)
    if not is_accepted:
        accepted = _TYPE_NAMES.get(hint, _structure_name(hint))
        raise ConfigError(f"{where}: found {value!r}. Accepted: {accepted}.")
    return value


def _structure_name(hint: Any) -> str:
    return "settings by name" if dataclasses.is_dataclass(hint) else "a list"
