"""`bandgap add-data`: files of this machine into a workspace of the dashboard, without the limits of the web page."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli.inputs import say
from bandgap.foundation.errors import InputError

_WORKSPACE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def add_data(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, a zip archive or a folder.")],
    workspace: Annotated[
        str, typer.Option(help="The workspace: what stands after ws= in the page's address, or the whole address.")
    ],
    name: Annotated[str, typer.Option(help="Name of the data set; default: that of the file or folder.")] = "",
) -> None:
    """Add a data set to a workspace of the dashboard on this machine; its worker checks the files.

    For data above the limits of an upload. The files are copied into the data directory (BANDGAP_HOME) and count
    against the workspace's quota.
    """
    from bandgap.jobs.home import open_home
    from bandgap.jobs.library import Library
    from bandgap.jobs.server_files import files_below
    from bandgap.jobs.store import JobStore
    from bandgap.jobs.tasks.data import store_files

    found = _WORKSPACE.search(workspace)
    if found is None:
        raise typer.BadParameter(
            f"{workspace!r} holds no workspace. Copy what stands after ws= in the page's address.",
            param_hint="--workspace",
        )
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    home = open_home()
    library, jobs = Library(home), JobStore(home)
    with library.database.reading() as connection:
        if connection.execute("SELECT 1 FROM workspace WHERE id = ?", (found.group(),)).fetchone() is None:
            say(f"The workspace {found.group()} is new in {home.folder}; is BANDGAP_HOME that of the dashboard?")
    top = path.resolve()
    dataset_id = str(uuid.uuid4())
    stored = store_files(library, found.group(), files_below(top, base=top.parent), name=str(path))
    dataset = library.add_dataset(
        found.group(),
        name or top.name,
        dataset_id=dataset_id,
        stored=stored,
        then=lambda new: jobs.submit(
            found.group(), "check", title=f"Checking {new.name}", payload={"dataset": new.id}, subject=new.id
        ),
    )
    say(f"{len(stored):,} files stored as {dataset.name!r}; open the page Data to see the verdicts.")
