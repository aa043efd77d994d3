"""Commands that take a run accept its folder or a zip of it."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any


def takes_zipped_model(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the unpacked folder where its argument `model` is a zip of a run."""

    @functools.wraps(command)
    def with_folder(*, model: Path, **values: Any) -> None:
        from bandgap.storage.run_archives import opened_run

        with opened_run(model) as folder:
            command(model=folder, **values)

    return with_folder
