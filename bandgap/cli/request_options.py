"""Options that decorators give to commands: of a request type, of the gaps, of the engine."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import typer

from bandgap.cli import options
from bandgap.cli.inputs import LabelChoice
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.requests import Request, RequestField

Command = Callable[..., None]
T = TypeVar("T", bound=Request)


def takes_request(
    request_type: type[Request], *, only: tuple[str, ...] = ()
) -> Callable[[Command], Command]:
    """Give a command one option for each field of a request type.

    The command has a keyword-only parameter `request`, which receives the request made from the
    options. Fields without an option, and those beside `only` where it is given, keep their
    defaults.
    """
    names = only or tuple(request_type.model_fields)
    fields = [f for f in request_type.fields() if f.option is not None and f.name in names]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            fields_given = {field.name: values.pop(field.name) for field in fields}
            command(**values, request=parsed_request(request_type, fields_given))

        return replace_parameter(with_options, "request", [_parameter(field) for field in fields])

    return decorate


def takes_labels(*, has_level: bool = False) -> Callable[[Command], Command]:
    """Give a command the options of its parameter `labels`, with the level of theory or without."""
    fields = {k: v for k, v in _LABELS.items() if has_level or k != "level_of_theory"}

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            choice = {field: values.pop(option.name) for field, option in fields.items()}
            command(**values, labels=LabelChoice(**choice))

        return replace_parameter(with_options, "labels", list(fields.values()))

    return decorate


def takes_engine(command: Command) -> Command:
    """Give a command --engine and --scheduler; the engine is set before the command is called."""

    @functools.wraps(command)
    def with_options(*, engine: Any, scheduler: Any, **values: Any) -> None:
        from bandgap.foundation.engines import use_engine

        use_engine(engine, scheduler)
        command(**values)

    return replace_parameter(with_options, "", _ENGINE)


def replace_parameter(command: Command, name: str, options: Sequence[inspect.Parameter]) -> Command:
    """Give a wrapped command these options in place of one parameter; without it, at the end."""
    signature = inspect.signature(command, eval_str=True)
    parameters = list(signature.parameters.values())
    names = [p.name for p in parameters]
    place = names.index(name) if name in names else len(names)
    parameters[place : place + 1] = options
    # keyword-only, so that defaults may come in any order
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return the parameter of a command for one option."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


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


def _parameter(field: RequestField) -> inspect.Parameter:
    """Return the parameter of a command for one field."""
    assert field.option is not None
    settings = typer.Option(
        field.option,
        help=field.setting.help,
        metavar=field.setting.metavar,
        min=_bound(field, field.minimum),
        max=_bound(field, field.maximum),
    )
    hint, default = _hint_and_default(field)
    return option(field.name, Annotated[hint, settings], default)


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


# Options by the field of `LabelChoice`.
_LABELS = {
    "key": option("label", options.Label),
    "table": option("labels", options.Labels),
    "unit": option("unit", options.LabelUnit),
    "column": option("column", options.GapColumn),
    "id_column": option("id_column", options.IdColumn),
    "level_of_theory": option("level_of_theory", options.LevelOfTheory, ""),
}
_ENGINE = [option("engine", options.Engine), option("scheduler", options.Scheduler)]
