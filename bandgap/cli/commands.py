"""The command classes: library errors as one message, checked outputs, options of several words."""

import typing
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from bandgap.cli.outputs import check_outputs
from bandgap.foundation.errors import BandgapError, Cancelled

ARGUMENT = "the argument"
SETS = "sets"  # the argument NAME=PATH... of train-sources and source-extras
EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


class PlainErrors(TyperGroup):
    """A group of commands that prints an error as one message on stderr, without a traceback.

    The exit code is 1.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command."""
        try:
            return super().invoke(ctx)
        except Cancelled as error:
            typer.echo(str(error) or "Cancelled.", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from error
        except BandgapError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(EXIT_ERROR) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            typer.echo(f"Error: {_os_error(error)}", err=True)
            raise typer.Exit(EXIT_ERROR) from error
        except MemoryError as error:
            typer.echo(
                "Error: out of memory. Use fewer structures or a descriptor with fewer features.",
                err=True,
            )
            raise typer.Exit(EXIT_ERROR) from error


class CheckedCommand(TyperCommand):
    """A command that first checks that its outputs can be written and are no inputs."""

    def invoke(self, ctx: Any) -> Any:
        """Check the given paths, then run the command."""
        labels = {str(p.name): _label(p) for p in self.params}
        names = path_parameters(self)
        if labels.get(SETS) == ARGUMENT:
            names.append(SETS)
        check_outputs({name: ctx.params.get(name) for name in names}, labels)
        return super().invoke(ctx)


class SpeciesCommand(CheckedCommand):
    """A command whose --species accepts symbols separated by spaces or commas: H C N or H,C,N."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the words after --species into one before the options are parsed."""
        return super().parse_args(ctx, join_words(args, option="--species"))


def path_parameters(command: Any) -> list[str]:
    """Return the names of a command's parameters that are one or several paths."""
    hints = typing.get_type_hints(command.callback)
    return [name for name, hint in hints.items() if _names_path(hint)]


def _names_path(hint: object) -> bool:
    return hint is Path or any(map(_names_path, typing.get_args(hint)))


def _label(parameter: Any) -> str:
    """Return the name of a parameter for the user: that of the option, or "the argument"."""
    longest: str = max(parameter.opts, key=len)
    return longest if longest.startswith("-") else ARGUMENT


def join_words(args: list[str], *, option: str) -> list[str]:
    """Join the words after `option`, up to the next option, with commas.

    >>> join_words(["--species", "H", "C", "--out", "x"], option="--species")
    ['--species', 'H,C', '--out', 'x']
    """
    joined: list[str] = []
    words: list[str] | None = None
    for word in args:
        if word == option or word.startswith("-"):
            joined += _joined(words)
            words = [] if word == option else None
            joined.append(word)
        elif words is not None:
            words.append(word)
        else:
            joined.append(word)
    return joined + _joined(words)


def _joined(words: list[str] | None) -> list[str]:
    return [",".join(words)] if words else []


def _os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."
