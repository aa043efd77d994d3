"""Settings whose types state their limits, to and from plain dicts, and their fingerprints.

A settings class is a frozen dataclass that derives from `Settings`. The annotation of a field says
what it accepts, such as `chains: Count = 4`: construction checks it, error messages and the
documentation print it. `__post_init__` is only for rules between fields.
"""

import dataclasses
import functools
import hashlib
import json
import math
import numbers
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

from annotated_types import Ge, Interval, MinLen, Predicate

from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

WholeNumber = Annotated[int, Ge(0)]
Count = Annotated[int, Ge(1)]
AtLeastTwo = Annotated[int, Ge(2)]
NonNegative = Annotated[float, Interval(ge=0, lt=math.inf)]
Positive = Annotated[float, Interval(gt=0, lt=math.inf)]
Share = Annotated[float, Interval(ge=0, le=1)]
ShareAboveZero = Annotated[float, Interval(gt=0, le=1)]
ShareBelowOne = Annotated[float, Interval(ge=0, lt=1)]
ProperShare = Annotated[float, Interval(gt=0, lt=1)]
OneOrMore = Annotated[tuple[T, ...], MinLen(1)]
# Values to choose from.
_DISTINCT = Predicate(lambda values: len(set(values)) == len(values))
Candidates = Annotated[tuple[NonNegative, ...], MinLen(1), _DISTINCT]

_WORDS: dict[Any, str] = {
    bool: "true or false",
    str: "text",
    types.NoneType: "none",
    int: "a whole number",
    float: "a number",
}


class Settings:
    """Base of the settings classes: a value that its type does not accept raises ConfigError."""

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, hint in field_hints(cls).items():
            check_value(hint, getattr(self, name), where=f"{cls.__name__}.{name}")


@functools.cache
def field_hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a dataclass by the name of the field, limits included."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def check_value(hint: Any, value: Any, *, where: str) -> None:
    """Raise ConfigError that names the place unless the annotation accepts the value."""
    from pydantic import ValidationError

    try:
        _adapter(hint).validate_python(plain(value), strict=True)
    except ValidationError as error:
        # For a list, the input is the wrong item, or the list that is too short.
        wrong = error.errors(include_url=False)[0]["input"]
        raise ConfigError(f"{where}: found {wrong!r}. Accepted: {accepted(hint)}.") from None


def plain(value: Any) -> Any:
    """Convert a numpy number to a Python number, and a list to a tuple, as JSON returns them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return value


def accepted(hint: Any, limits: Iterable[Any] = ()) -> str:
    """Return what an annotation accepts, within the limits, as text.

    Examples
    --------
    >>> accepted(Count | None)
    'a whole number from 1 or none'
    >>> accepted(OneOrMore[ProperShare])
    'one or more numbers above 0 to less than 1'
    """
    limits = list(limits)
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is Annotated:
        return accepted(arguments[0], [*arguments[1:], *limits])
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if len(_members(hint)) > 1:
        return " or ".join(accepted(member, limits) for member in arguments)
    if origin is tuple:
        return _accepted_items(arguments, limits)
    words = _WORDS.get(hint, "settings by name")
    return " ".join([words, *_limit_words(limits)]) if hint in (int, float) else words


def bounds(limits: Iterable[Any]) -> dict[str, float]:
    """Return the finite bounds of numbers by name: ge, gt, le and lt."""
    return {
        name: bound
        for item in limits
        for name in ("ge", "gt", "le", "lt")
        if (bound := getattr(item, name, None)) is not None and math.isfinite(bound)
    }


def _accepted_items(arguments: tuple[Any, ...], limits: list[Any]) -> str:
    """Return what a list of such items accepts as text."""
    words = accepted(arguments[0])
    is_filled = any(getattr(limit, "min_length", 0) for limit in limits)
    if words == "text" and not is_filled:
        return "a list of texts"
    many = {"a whole number": "whole numbers", "a number": "numbers", "text": "texts"}
    for one, several in many.items():
        if words.startswith(one):
            first = "one or more " if is_filled else ""
            last = ", none twice" if _DISTINCT in limits else ""
            return first + words.replace(one, several, 1) + last
    return "a list"


def _limit_words(limits: Iterable[Any]) -> list[str]:
    words = {"ge": "from", "gt": "above", "le": "to", "lt": "to less than"}
    numbers_by_name = bounds(limits)
    return [f"{words[n]} {numbers_by_name[n]:g}" for n in words if n in numbers_by_name]


@functools.cache
def _adapter(hint: Any) -> "TypeAdapter[Any]":
    """Return what checks values of this annotation; settings inside it have checked themselves."""
    from pydantic import ConfigDict, TypeAdapter

    # Of a dataclass alone, pydantic refuses a config.
    config = None if dataclasses.is_dataclass(hint) else ConfigDict(arbitrary_types_allowed=True)
    return TypeAdapter(
        functools.reduce(operator.or_, map(_instance, _members(hint))), config=config
    )


def _instance(hint: Any) -> Any:
    from pydantic import InstanceOf

    if not dataclasses.is_dataclass(hint):
        return hint
    return Annotated[hint, InstanceOf()]  # type: ignore[type-arg]


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only type."""
    return get_args(hint) if get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


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
