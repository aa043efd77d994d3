"""Refuse unknown keyword arguments of public functions by a typed error with a remedy.

Python's own TypeError names only the unknown argument.
"""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.requests import Request

P = ParamSpec("P")
R = TypeVar("R")


def checked_keywords(
    request_type: type[Request] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: unknown keyword arguments of a function raise ConfigError.

    If one is a setting of `request_type`, under its name or that of its command-line option, the
    message says how the request states it.
    """

    def decorator(function: Callable[P, R]) -> Callable[P, R]:
        accepted = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in accepted:
                    remedy = _remedy(name, accepted, request_type)
                    raise ConfigError(f"{function.__name__} has no argument {name!r}. {remedy}")
            return function(*args, **kwargs)

        return checked

    return decorator


def _remedy(name: str, accepted: tuple[str, ...], request_type: type[Request] | None) -> str:
    option = "--" + name.replace("_", "-")
    fields = [] if request_type is None else request_type.fields()
    matching = [field.name for field in fields if name == field.name or option == field.option]
    if matching and request_type is not None:
        return (
            f"It is a setting of the request: request=bandgap.{request_type.__name__}"
            f"({matching[0]}=...)."
        )
    return f"Accepted: {', '.join(accepted)}."
