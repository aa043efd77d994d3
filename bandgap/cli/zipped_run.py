"""Commands that take a run accept its folder or a zip of it."""

import functools
from collections.abc import Callable
from typing import Any

Command = Callable[..., None]


def takes_zipped_run(argument: str) -> Callable[[Command], Command]:
    """Give a command the unpacked folder where this argument is a zip of a run."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_folder(**values: Any) -> None:
            from bandgap.storage.run_archives import opened_run

            with opened_run(values[argument]) as folder:
                command(**{**values, argument: folder})

        return with_folder

    return decorate
