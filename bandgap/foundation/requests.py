"""Base of the requests: frozen, validated and serialisable descriptions of one piece of work.

A request is the only place that names, types, bounds and explains a setting. The command line
creates its options from the fields, the documentation its tables. The
job table and manifests store `Request.to_values`, and "repeat this run" prints
`Request.command_options`.
"""

import functools
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, ParamSpec, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from bandgap.foundation.config import accepted, bounds, plain
from bandgap.foundation.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
FieldKind = Literal["flag", "integer", "number", "text", "choice", "integers", "texts", "settings"]


@dataclass(frozen=True)
class Setting:
    """How one field of a request is shown to a user.

    Parameters
    ----------
    label
        Name of the widget on a page, such as "Labelled structures".
    help
        One or two sentences: help text of the command-line option, of the widget and of the
        documentation.
    option
        Name of the command-line option, such as "--n-test". Default: the field's name with hyphens.
        None: the field has no option of its own.
    metavar
        Placeholder of the value in the help text of the command line.
    example
        Value of a list as a user types it, such as "40000,10000"; shown in errors.
    """

    label: str
    help: str
    option: str | None = ""
    metavar: str | None = None
    example: str = ""


@dataclass(frozen=True)
class RequestField:
    """One field of a request type: its name, kind of value, default, bounds and texts.

    `accepted` says as text what is accepted, and `choices` are the values of a choice. `minimum`
    and `maximum` are the smallest and the largest accepted number; None means no bound.
    """

    name: str
    kind: FieldKind
    default: Any
    setting: Setting
    optional: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    accepted: str = ""

    @property
    def option(self) -> str | None:
        """Name of the command-line option, or None."""
        if self.setting.option is None:
            return None
        return self.setting.option or "--" + self.name.replace("_", "-")

    def option_texts(self, value: Any) -> list[str]:
        """Return a value as texts of the command line, one for each use of the option.

        Examples
        --------
        >>> field = RequestField("settings", "settings", {}, Setting("", ""))
        >>> field.option_texts({"lam": 0.5, "kind": "a"})
        ['lam=0.5', 'kind=a']
        """
        if self.kind == "settings":
            return [
                f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in value.items()
            ]
        if self.kind in ("integers", "texts"):
            return [",".join(map(str, value))]
        if self.kind == "number":
            return [f"{value:g}"]
        return [str(value)]


class Request(BaseModel):
    """Base of the request types.

    A wrong value raises ConfigError with the field, the value and what is accepted. Equal requests
    describe the same work. Fields in `execution` only change how fast the work is done; `work`
    leaves them out.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )
    execution: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_sentence(type(self), error)) from None

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, values: Any) -> Any:
        """Convert numpy numbers to Python numbers, and lists to tuples, as JSON returns them."""
        if not isinstance(values, Mapping):
            return values
        return {name: plain(value) for name, value in values.items()}

    @classmethod
    def field(cls, name: str) -> RequestField:
        """Return the description of one field."""
        return _described(name, cls.model_fields[name])

    @classmethod
    def fields(cls) -> list[RequestField]:
        """Return the descriptions of all fields in their order."""
        return [cls.field(name) for name in cls.model_fields]

    def to_values(self) -> dict[str, Any]:
        """Return all fields as plain values for JSON."""
        return self.model_dump(mode="json")

    @property
    def work(self) -> dict[str, Any]:
        """Values that differ from their defaults, without fields that only change the speed."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude=set(self.execution))

    def changed(self, **values: Any) -> Self:
        """Return a copy with some fields changed and checked."""
        values = {name: getattr(self, name) for name in self.model_fields_set} | values
        return type(self)(**values)

    def command_options(self) -> list[tuple[str, str]]:
        """Return the command-line options of this request; flags have an empty text."""
        options: list[tuple[str, str]] = []
        for field in type(self).fields():
            value = getattr(self, field.name)
            if field.option is None or value == field.default:
                continue
            texts = [""] if field.kind == "flag" else field.option_texts(value)
            options += [(field.option, text) for text in texts]
        return options


def checked_keywords(
    request_type: type[Request] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: unknown keyword arguments of a function raise ConfigError.

    Python's own TypeError names only the unknown argument. If one is a setting of `request_type`,
    under its name or that of its command-line option, the message says how the request states it.
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


def _described(name: str, info: FieldInfo) -> RequestField:
    """Return the description of a pydantic field."""
    setting = next((item for item in info.metadata if isinstance(item, Setting)), None)
    if setting is None:
        raise TypeError(f"field {name!r} of a request has no Setting in its annotation")
    arguments = typing.get_args(info.annotation)
    optional = type(None) in arguments
    hint = next(a for a in arguments if a is not type(None)) if optional else info.annotation
    is_choice = typing.get_origin(hint) is Literal
    limits = bounds(info.metadata)
    example = f", such as {setting.example}" if setting.example else ""
    return RequestField(
        name=name,
        kind=_kind_of(hint),
        default=info.get_default(call_default_factory=True),
        setting=setting,
        optional=optional,
        choices=tuple(map(str, typing.get_args(hint))) if is_choice else (),
        minimum=limits.get("ge"),
        maximum=limits.get("le"),
        accepted=accepted(hint, info.metadata) + example,
    )


def _kind_of(hint: Any) -> FieldKind:
    """Return the kind of value of an annotation."""
    plain: dict[Any, FieldKind] = {bool: "flag", int: "integer", float: "number", str: "text"}
    if hint in plain:
        return plain[hint]
    origin = typing.get_origin(hint)
    if origin is Literal:
        return "choice"
    if origin is tuple:
        return "integers" if typing.get_args(hint)[0] is int else "texts"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "settings"
    raise TypeError(
        f"a field of a request has the annotation {hint}, "
        "for which there is no widget and no option"
    )


def _sentence(request_type: type[Request], error: ValidationError) -> str:
    """Return the first problem of a pydantic error as one sentence."""
    problem = error.errors(include_url=False)[0]
    if not problem["loc"]:
        return str(problem["msg"]).removeprefix("Value error, ")
    name = str(problem["loc"][0])
    if name not in request_type.model_fields:
        return f"unknown setting {name!r}. Accepted: {', '.join(request_type.model_fields)}."
    if problem["type"] == "missing" and len(problem["loc"]) == 1:
        return f"setting {name!r} is missing."
    field = request_type.field(name)
    # For a list, the input is the wrong item, or the list that is too short.
    value = problem["input"]
    none = " or none" if field.optional else ""
    return f"{name}: found {value!r}. Accepted: {field.accepted}{none}."


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
