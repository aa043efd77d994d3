"""Settings whose types state their limits.

A settings class is a frozen dataclass that derives from `Settings`. The annotation of a field says
what it accepts, such as `chains: Count = 4`: construction checks it, error messages and the
documentation print it. `__post_init__` is only for rules between fields.
"""

import dataclasses
import functools
import math
import numbers
import operator
import types
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

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
    many = {"a whole number": "whole numbers", "a number": "numbers", "text": "texts"}
    for one, several in many.items():
        if words.startswith(one):
            is_filled = any(getattr(limit, "min_length", 0) for limit in limits)
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

    return Annotated[hint, InstanceOf()] if dataclasses.is_dataclass(hint) else hint  # type: ignore[type-arg]


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only type."""
    return get_args(hint) if get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
