"""`bandgap add-data`, `add-source`, `add-run` and `data fetch`: add to a workspace, fetch data."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.commands import CheckedCommand
from bandgap.cli.inputs import print_note
from bandgap.foundation.errors import InputError

if TYPE_CHECKING:
    from bandgap.jobs.library import Library
    from bandgap.jobs.store import JobStore

_WORKSPACE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Workspace = Annotated[
    str,
    typer.Option(
        help="The workspace: the text after ws= in the address of the "
        "dashboard, or the whole address."
    ),
]


def add_data(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A file, a zip archive or a folder.")
    ],
    workspace: Workspace,
    name: Annotated[
        str, typer.Option(help="Name of the data set; default: that of the file or folder.")
    ] = "",
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    id_column: options.IdColumn = None,
    level_of_theory: options.LevelOfTheory = "",
) -> None:
    """Add a data set to a workspace of the dashboard on this machine; the worker checks the files.

    Use it for data above the upload limits. The files are copied into the data directory
    (BANDGAP_HOME) and count towards the quota of the workspace. With --labels the structures get
    the gaps of a table.
    """
    from bandgap.jobs.server_files import files_below
    from bandgap.jobs.tasks.data import store_files
    from bandgap.jobs.uploaded_gaps import gaps_payload

    jobs, library, id = _opened(workspace, path)
    gaps: dict[str, Any] = {}
    if labels is None and (unit or column or id_column or level_of_theory):
        raise InputError(
            "--unit, --column, --id-column and --level-of-theory are of a table of gaps. Name it "
            "with --labels, or leave them out."
        )
    if labels is not None:
        if not labels.is_file():
            raise InputError(f"{labels}: there is no such table of gaps.")
        gaps["gaps"] = gaps_payload(
            labels.read_bytes(),
            name=labels.name,
            unit=unit,
            column=column,
            id_column=id_column,
            level_of_theory=level_of_theory,
        )
    top = path.resolve()
    dataset_id = str(uuid.uuid4())
    stored = store_files(library, id, files_below(top, base=top.parent), name=str(path))
    dataset = library.add_dataset(
        id,
        name or top.name,
        dataset_id=dataset_id,
        stored=stored,
        then=lambda new: jobs.submit(
            id,
            "check",
            title=f"Checking {new.name}",
            payload={"dataset": new.id, **gaps},
            subject=new.id,
        ),
    )
    print_note(
        f"{len(stored):,} files stored as {dataset.name!r}; open the page Data to see the verdicts."
    )


def add_source(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What train-source or train-sources wrote.")
    ],
    workspace: Workspace,
    name: Annotated[
        str, typer.Option(help="Name of the source model; default: that of the folder.")
    ] = "",
) -> None:
    """Add a source model to a workspace of the dashboard on this machine.

    Every network is loaded and its stored predictions are recomputed. Then the folder is copied
    into the data directory (BANDGAP_HOME), where it counts towards the quota of the workspace.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.jobs.added_sources import add_folder, check_source
    from bandgap.jobs.sources import MAX_NAME
    from bandgap.storage.manifests import MANIFEST

    jobs, library, id = _opened(workspace, folder)
    set_threads()
    if (folder / MANIFEST).is_file():
        check_source(folder)
    job = add_folder(jobs, library, id, folder, name=" ".join(name.split())[:MAX_NAME])
    state = "is there already" if job.state == "finished" else "is stored"
    print_note(
        f"The source model {job.payload['name']!r} {state}; open the page Source "
        "models to see its card."
    )


def add_run(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A zip or the folder of a run.")],
    workspace: Workspace,
    name: Annotated[
        str, typer.Option(help="Name of the run; default: that of the file or folder.")
    ] = "",
) -> None:
    """Add a run that was made elsewhere to a workspace of the dashboard on this machine.

    The run is loaded and the predictions that it was stored with are recomputed. Then it is copied
    into the data directory (BANDGAP_HOME), where it counts towards the quota of the workspace, and
    the worker adds it to the list of runs. The data set that it learned from is not added.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.jobs.added_runs import RUNS, check_run
    from bandgap.jobs.housekeeping import MAX_NAME
    from bandgap.storage.run_archives import opened_run, run_archive

    jobs, library, id = _opened(workspace, path)
    set_threads()
    with opened_run(path) as folder:
        check_run(folder)
    data = path.read_bytes() if path.is_file() else run_archive(path)
    title = name or path.resolve().name.removesuffix(".zip")[:MAX_NAME]
    job = RUNS.add_archive(jobs, library, id, data, name=title)
    state = "is there already" if job.state == "finished" else "is stored"
    print_note(f"The run {job.payload['name']!r} {state}; open the page Result to see it.")


def _opened(workspace: str, path: Path) -> tuple[JobStore, Library, str]:
    """Return jobs, library and id of the workspace in an address; print a note if it is new.

    Raises BadParameter for an address without a workspace, and InputError where `path` does not
    exist.
    """
    from bandgap.jobs.home import open_home
    from bandgap.jobs.library import Library
    from bandgap.jobs.store import JobStore
    from bandgap.jobs.workspaces import has_workspace

    match = _WORKSPACE.search(workspace)
    if match is None:
        raise typer.BadParameter(
            f"{workspace!r} contains no workspace. Copy the text after ws= in the "
            "address of the dashboard.",
            param_hint="--workspace",
        )
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    home = open_home()
    library = Library(home)
    if not has_workspace(library, match.group()):
        print_note(
            f"The workspace {match.group()} is new in {home.folder}; is BANDGAP_HOME "
            "that of the dashboard?"
        )
    return JobStore(home), library, match.group()


group = typer.Typer(no_args_is_help=True)


@group.callback()
def _root() -> None:
    """Published data sets."""


@group.command(
    cls=CheckedCommand, epilog="Example: bandgap data fetch oe62 --out oe62 --file df_5k.json"
)
def fetch(
    name: Annotated[Literal["oe62"], typer.Argument(metavar="NAME", help="The data set: oe62.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to download to.")] = Path("oe62"),
    file: Annotated[
        Literal["df_62k.json", "df_31k.json", "df_5k.json"],
        typer.Option(
            help="Which of its files: 61,489 molecules (387 MB), those with water, or "
            "those with GW (51 MB)."
        ),
    ] = "df_62k.json",
    address: Annotated[
        str | None, typer.Option(help="Another address with the files and SHA512sums.")
    ] = None,
) -> None:
    """Download a published data set and verify its checksums.

    The same command resumes an interrupted download.

    OE62: 61,489 molecules from organic crystals, doi:10.14459/2019mp1507656, CC BY-SA 4.0;
    `train-source --oe62` reads it.
    """
    from bandgap.cli.bars import progress_bars
    from bandgap.datasets.fetching import OE62, fetch

    del name  # there is only one
    with progress_bars() as progress:
        path = fetch(file, out, base=address or OE62, progress=progress)
    typer.echo(
        f"{path}: complete, checksum verified ({path.stat().st_size:,} bytes). "
        "Licence: CC BY-SA 4.0."
    )
