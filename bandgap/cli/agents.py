"""`bandgap mcp`: commands as tools of an agent, by the Model Context Protocol.

A tool is a command, and its schema is made from the options of the command, which are those of the
request types. Every call is a process, so that nothing it prints is mixed with the protocol, and it
ends when the call is cancelled.
"""

import sys
import tempfile
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import TypeAdapter

import bandgap
from bandgap.cli.commands import path_parameters
from bandgap.cli.inputs import check_exist
from bandgap.cli.outputs import OUTPUTS
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.extras import package
from bandgap.runs.requests import PredictRequest

# Commands by tool. Their answer is the table that they write, otherwise what they print.
TOOLS: Final[Mapping[str, str]] = {
    "check": "check",
    "predict": "predict",
    "explain": "explain",
    "compute_next": "compute-next",
    "describe_run": "describe",
}
_INSTRUCTIONS: Final = (
    "Band gaps of crystals in eV. A prediction is only as good as its interval (lower_eV, upper_eV,"
    " with the probability level); read the columns status, problem and domain before its number."
    " `pbe` is a model that needs no labels. Notes follow the table."
)
# Not offered: files to write and their format, where and how fast to compute, and how to print.
_HIDDEN: Final = {
    *OUTPUTS,
    *PredictRequest.execution,
    *("structures_format", "engine", "scheduler", "as_json", "strict", "help"),
}
_TABLES: Final = ("features", "labelled_features")  # text options that name a file


def mcp(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Files and folders that the agent may have read; no others are."
        ),
    ],
) -> None:
    """Offer check, predict, explain, compute-next and describe to an agent (MCP over stdio).

    Nothing in PATH is changed. Needs the extra mcp.
    """
    check_exist(paths)
    server = package("mcp.server", extra="mcp", user="`bandgap mcp`")
    import anyio  # the package mcp needs it

    anyio.run(_serve, server, [path.resolve() for path in paths])


async def _serve(server: Any, roots: Sequence[Path]) -> None:
    import mcp.types as types
    from mcp.server.stdio import stdio_server

    async def list_tools(*_: object) -> Any:
        read_only = types.ToolAnnotations(read_only_hint=True)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool,
                    description=command.help,
                    input_schema=_schema_of(command),
                    annotations=read_only,
                )
                for tool, command in _commands().items()
            ]
        )

    async def call_tool(_: object, call: Any) -> Any:
        try:
            texts = await _answer(call.name, call.arguments or {}, roots)
            is_error = False
        except BandgapError as error:
            texts = [str(error)]
            is_error = True
        content: list[Any] = [types.TextContent(text=text) for text in texts if text]
        return types.CallToolResult(content=content, is_error=is_error)

    offered = server.Server(
        "bandgap",
        version=bandgap.__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as streams:
        await offered.run(*streams, offered.create_initialization_options())


def _commands() -> dict[str, Any]:
    from bandgap.cli import app

    commands = typer.main.get_group(app).commands
    return {tool: commands[name] for tool, name in TOOLS.items()}


def _schema_of(command: Any) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool."""
    offered = _parameters(command)
    hints = typing.get_type_hints(command.callback)
    return {
        "type": "object",
        "properties": {
            name: {**TypeAdapter(hints[name]).json_schema(), "description": parameter.help}
            for name, parameter in offered.items()
        },
        "required": [name for name, parameter in offered.items() if parameter.required],
        "additionalProperties": False,
    }


def _parameters(command: Any) -> dict[str, Any]:
    return {p.name: p for p in command.params if p.name not in _HIDDEN}


async def _answer(tool: str, arguments: Mapping[str, Any], roots: Sequence[Path]) -> list[str]:
    """Return the table of a tool, or what it prints, and its notes.

    Raises InputError for an unknown tool or argument, a path outside of `roots`, and what the
    command refuses.
    """
    import anyio

    commands = _commands()
    if tool not in commands:
        raise InputError(f"There is no tool {tool!r}. Accepted: {', '.join(commands)}.")
    words = list(_words(commands[tool], arguments, roots))
    if tool == "explain" and "run" in arguments:
        _check_inputs_of_run(str(arguments["run"]), roots)
    with tempfile.TemporaryDirectory(prefix="bandgap-mcp-") as folder:
        table = Path(folder, "table.csv")
        names = {parameter.name for parameter in commands[tool].params}
        words += [f"--out={table}"] if "out" in names else []
        words += ["--json"] if "as_json" in names else []
        program = [sys.executable, "-X", "utf8", "-m", "bandgap", TOOLS[tool]]
        done = await anyio.run_process([*program, *words], check=False)
        notes = done.stderr.decode()
        if done.returncode:
            raise InputError(notes.strip())
        printed = done.stdout.decode()
        if table.is_file():
            return [table.read_text(encoding="utf-8"), printed + notes]
        return [printed, notes]


def _words(command: Any, arguments: Mapping[str, Any], roots: Sequence[Path]) -> Iterator[str]:
    """Yield the words of the command line, each option with its value in one word."""
    parameters = _parameters(command)
    paths = {*path_parameters(command), *_TABLES}
    for name, value in arguments.items():
        if name not in parameters:
            raise InputError(f"There is no argument {name!r}. Accepted: {', '.join(parameters)}.")
        parameter = parameters[name]
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                continue
            text = _allowed(str(item), roots) if name in paths else str(item)
            if isinstance(item, bool):
                yield (parameter.opts if item else parameter.secondary_opts)[0]
            else:
                option = parameter.opts[0]
                yield f"{option}={text}" if option.startswith("-") else text


def _allowed(text: str, roots: Sequence[Path]) -> str:
    """Return the name of a shipped model as it is, and a path without links.

    Raises InputError where it, or a link in a folder, leads out of `roots`.
    """
    from bandgap.datasets.shipped_models import model_names
    from bandgap.structures.reading import files_under

    path = Path(text)
    if text in model_names() and not path.exists():
        return text
    for file in files_under(path):
        if not any(Path(file).resolve().is_relative_to(root) for root in roots):
            places = ", ".join(map(str, roots))
            raise InputError(f"{text}: not, or not wholly, in what may be read here: {places}.")
    return str(path.resolve())


def _check_inputs_of_run(run: str, roots: Sequence[Path]) -> None:
    """Raise InputError where a run says that it was made from files outside of `roots`.

    `bandgap explain` reads them again.
    """
    from bandgap.datasets.shipped_models import find_model
    from bandgap.storage.manifests import damage_reported, read_manifest
    from bandgap.storage.run_archives import opened_run

    with opened_run(find_model(run).path) as folder, damage_reported(folder):
        manifest = read_manifest(folder, kind="run")
        inputs = manifest.get("inputs") or {}
        stored = [*inputs.get("structures", ()), inputs.get("labels")]
        files = [*map(str, filter(None, [*stored, manifest["request"].get("features")]))]
    for file in files:
        _allowed(file, roots)
