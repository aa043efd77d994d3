"""Reference pages that are generated from the code: commands and settings."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer

from bandgap.cli import app
from bandgap.foundation.config import accepted, field_hints
from bandgap.foundation.requests import Request
from bandgap.runs.requests import PredictRequest, SourceRequest, TransferRequest
from bandgap.transfer import METHODS

REQUESTS: tuple[type[Request], ...] = (TransferRequest, PredictRequest, SourceRequest)


def write(folder: Path) -> None:
    """Write commands.md and settings.md. Unchanged files are left as they are."""
    for name, lines in (("commands.md", commands()), ("settings.md", settings())):
        path = folder / name
        text = "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def commands() -> Iterator[str]:
    """Yield the page of the command line: a section for each command."""
    yield "# Commands"
    yield ""
    yield "This page is made from the code. `bandgap COMMAND --help` prints the same."
    yield ""
    yield (
        "`python -m bandgap COMMAND` does the same as `bandgap COMMAND`. Use it where `bandgap` is "
        "not on the `PATH`, or to name the Python that runs it."
    )
    yield from _group(typer.main.get_command(app), "bandgap")


def _group(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        full_name = f"{prefix} {name}"
        if hasattr(command, "commands"):
            yield from _group(command, full_name)
        else:
            yield from _command(command, full_name)


def _command(command: click.Command, name: str) -> Iterator[str]:
    yield ""
    yield f"## {name}"
    yield ""
    yield from (command.help or "").strip().splitlines()
    if command.epilog:
        yield ""
        yield f"```shell\n{command.epilog.removeprefix('Example: ')}\n```"
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        yield ""
        yield "| option | meaning | default |"
        yield "|---|---|---|"
        yield from rows


def _parameter(parameter: click.Parameter) -> str:
    if parameter.name == "help":
        return ""
    name = (
        f"`{max(parameter.opts, key=len)}`"
        if parameter.param_type_name == "option"
        else f"`{parameter.metavar}`"
    )
    help_text = _cell(getattr(parameter, "help", "") or "")
    return f"| {name} | {help_text} | {_cell(_default(parameter))} |"


def _default(parameter: click.Parameter) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default in ((), [], "", False) or callable(default):
        return ""
    return f"`{default}`"


def settings() -> Iterator[str]:
    """Yield the page of settings: a section for each field of each request, and each method."""
    yield "# Settings"
    yield ""
    yield "This page is made from the code. A request is the description of one piece of work:"
    yield "the command line, the dashboard and Python use the same fields."
    for request_type in REQUESTS:
        yield ""
        yield f"## {request_type.__name__}"
        yield ""
        yield (request_type.__doc__ or "").strip()
        for field in request_type.fields():
            option = f" Option `{field.option}`." if field.option else ""
            yield ""
            yield f"### {field.name}"
            yield ""
            accepted = f"Accepted: {field.accepted}. Default: `{field.default!r}`."
            yield f"{field.setting.help}{option} {accepted}"
    yield ""
    yield "## Settings of the methods"
    yield ""
    yield "Given by `--set NAME=VALUE`, or in Python by `TransferRequest(settings={...})`."
    for name, method in METHODS.items():
        yield ""
        yield f"### {name}"
        yield ""
        yield f"{method.title}. {method.summary}"
        yield ""
        yield "| setting | accepted | default |"
        yield "|---|---|---|"
        yield from _setting_rows(method.configure({}))


def _setting_rows(config: Any, prefix: str = "") -> Iterator[str]:
    """Yield a row for each setting; those of nested settings are named `sampler.chains`."""
    for name, hint in field_hints(type(config)).items():
        value = getattr(config, name)
        if dataclasses.is_dataclass(value):
            yield from _setting_rows(value, f"{prefix}{name}.")
        else:
            yield f"| `{prefix}{name}` | {_cell(accepted(hint))} | `{value!r}` |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
