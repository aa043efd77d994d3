"""Commands that take a run accept its folder, a zip of it, or the name of a shipped model."""

import functools
from collections.abc import Callable
from typing import Any

from bandgap.cli.inputs import print_note

Command = Callable[..., None]


def takes_zipped_run(argument: str) -> Callable[[Command], Command]:
    """Give a command the folder where this argument is a zip of a run or a shipped model."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_folder(**values: Any) -> None:
            from bandgap.datasets.shipped_models import find_model
            from bandgap.storage.run_archives import opened_run

            model = find_model(values[argument])
            if model.note:
                print_note(model.note)
            with opened_run(model.path) as folder:
                command(**{**values, argument: folder})

        return with_folder

    return decorate
