"""`bandgap add-data` and `bandgap data fetch`: files of this machine into a workspace, and published data sets."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Annotated, Literal

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


published = typer.Typer(no_args_is_help=True)


@published.callback()
def _root() -> None:
    """Published data sets."""


@published.command(epilog="Example: bandgap data fetch oe62 --out oe62 --file df_5k.json")
def fetch(
    name: Annotated[Literal["oe62"], typer.Argument(metavar="NAME", help="The data set: oe62.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to download to.")] = Path("oe62"),
    file: Annotated[
        Literal["df_62k.json", "df_31k.json", "df_5k.json"],
        typer.Option(help="Which of its files: 61,489 molecules (387 MB), those with water, or those with GW (51 MB)."),
    ] = "df_62k.json",
    address: Annotated[str | None, typer.Option(help="Another address that holds the files and SHA512sums.")] = None,
) -> None:
    """Download a published data set and check it against the published sums; interrupted, the same command goes on.

    OE62: 61,489 molecules from organic crystals, doi:10.14459/2019mp1507656, CC BY-SA 4.0; `train-source --oe62` reads
    it.
    """
    from bandgap.cli.bars import progress_bars
    from bandgap.datasets.fetching import OE62, fetch

    del name  # there is one
    with progress_bars() as progress:
        path = fetch(file, out, base=address or OE62, progress=progress)
    typer.echo(f"{path}: whole and as published ({path.stat().st_size:,} bytes). Licence: CC BY-SA 4.0.")
