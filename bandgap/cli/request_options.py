"""Command-line options from the fields of a request type."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import typer

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.requests import Request, RequestField

T = TypeVar("T", bound=Request)


def takes_request(
    request_type: type[Request], *, without: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each field of a request type.

    The command has a keyword-only parameter `request`, which receives the request made from the
    options. Fields in `without` have no option and keep their defaults.
    """
    fields = [f for f in request_type.fields() if f.option is not None and f.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            options = {field.name: values.pop(field.name) for field in fields}
            command(**values, request=parsed_request(request_type, options))

        signature = inspect.signature(command, eval_str=True)
        parameters = [p for p in signature.parameters.values() if p.name != "request"]
        parameters += [_parameter(field) for field in fields]
        signature = signature.replace(parameters=_keyword_only(parameters))
        with_options.__signature__ = signature  # type: ignore[attr-defined]
        with_options.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_options

    return decorate


def parsed_request(request_type: type[T], options: Mapping[str, Any]) -> T:
    """Return the request made from the values of options; other options are ignored.

    Raises ConfigError for a value that the request does not accept.
    """
    fields = (field for field in request_type.fields() if field.name in options)
    values = {field.name: _parsed(field, options[field.name]) for field in fields}
    return request_type(**{name: value for name, value in values.items() if value is not None})


def parse_settings(texts: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE texts; a value is JSON where possible (3, 0.5, true, [1, 2]), else text.

    >>> parse_settings(["lam=0.5", "standardise=target"])
    {'lam': 0.5, 'standardise': 'target'}
    """
    from bandgap.foundation.damage import JsonError, parse_json

    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"--set {text!r}. Write NAME=VALUE, such as --set lam=1.")
        try:
            settings[name.strip()] = parse_json(value, what=name)
        except JsonError:
            settings[name.strip()] = value
    return settings


def _keyword_only(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return the parameters as keyword-only ones, so that defaults may come in any order."""
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]


def _parameter(field: RequestField) -> inspect.Parameter:
    """Return the parameter of a command for one field."""
    assert field.option is not None
    option = typer.Option(
        field.option,
        help=field.setting.help,
        metavar=field.setting.metavar,
        min=_bound(field, field.minimum),
        max=_bound(field, field.maximum),
    )
    hint, default = _hint_and_default(field)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[hint, option],
    )


def _bound(field: RequestField, value: float | None) -> float | None:
    return int(value) if field.kind == "integer" and value is not None else value


def _hint_and_default(field: RequestField) -> tuple[Any, Any]:
    """Return the type for typer and the default of an option."""
    plain: Mapping[str, Any] = {"flag": bool, "integer": int, "number": float, "text": str}
    if field.kind == "settings":
        return list[str], []
    if field.kind in ("integers", "texts"):
        return (str | None), None
    if field.kind == "choice":
        hint: Any = Literal[field.choices]
    else:
        hint = plain[field.kind]
    return (hint | None if field.optional else hint), field.default


def _parsed(field: RequestField, value: Any) -> Any:
    """Return the value of a field from that of an option, None where the option was not given."""
    if value is None:
        return None
    if field.kind == "settings":
        return parse_settings(value)
    if field.kind == "texts":
        return tuple(value.replace(",", " ").split())
    if field.kind == "integers":
        return _integers(field, value)
    return value


def _integers(field: RequestField, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise ConfigError(f"{field.option}: found {text!r}. Accepted: {field.accepted}.") from None
