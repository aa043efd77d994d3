"""`bandgap report`, `describe` and `cite`: a file on a run, its card, and what it should cite."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli.zipped_run import takes_zipped_run


@takes_zipped_run("run")
def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, a zip of one, or pbe.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="File to write: .html, or .pdf where a browser is installed."
        ),
    ],
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="Title of the report. Default: the method.")
    ] = "",
) -> None:
    """Write one page on a run: error, figures, comparison with the mean gap, methods, citations.

    The file needs no network. It contains nothing that is not in RUN. A PDF is printed by an
    installed Chromium, Chrome or Edge.
    """
    from bandgap.storage.manifests import read_manifest

    manifest = read_manifest(run, kind="run")
    # Imported after the run was found, because they import pandas.
    from bandgap.jobs.shell_commands import stored_command
    from bandgap.runs.html_report import ReportContext, write_report

    command = stored_command(manifest)
    write_report(run, out, context=ReportContext(title=title, command=command))
    typer.echo(f"report written to {out} ({out.stat().st_size / 1e6:.1f} MB)")


@takes_zipped_run("run")
def describe(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, a zip of one, or pbe.")
    ],
) -> None:
    """Print the card of a run: data, method, error and intervals, what it is not for, citations."""
    from bandgap.runs.model_card import model_card
    from bandgap.runs.stored import load_run

    loaded = load_run(run)
    typer.echo(model_card(loaded.folder, loaded.manifest, loaded.domain))


@takes_zipped_run("run")
def cite(
    run: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of a run, a zip of one, or pbe.")
    ],
) -> None:
    """Print what a run rests on and should be cited: method, descriptor and data."""
    from bandgap.runs.methods_text import cited_works
    from bandgap.storage.manifests import read_manifest

    typer.echo("\n".join(cited_works(read_manifest(run, kind="run"))))
