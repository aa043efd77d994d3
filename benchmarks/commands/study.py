"""`python -m benchmarks study`: the tables and figures of the papers, recomputed."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.foundation.errors import InputError


def study(
    name: Annotated[
        str, typer.Argument(help='Study, or "all". --list shows the names.', show_default=False)
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            help="smoke (seconds), laptop (at most 15 minutes on 2 cores) or paper (its sizes)."
        ),
    ] = "laptop",
    list_studies: Annotated[
        bool, typer.Option("--list", help="Show all studies with outcome and date.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the pages of the documentation from the stored results here."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results (default: benchmarks/studies/results)."),
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Recompute a table or figure of a paper, and compare it with the printed numbers."""
    from benchmarks.studies.registry import STUDIES
    from benchmarks.studies.results import FOLDER, latest, studies_named
    from benchmarks.studies.study import SCALES

    folder = out or FOLDER
    if scale not in SCALES:
        raise InputError(f"There is no scale {scale}. Accepted: {', '.join(SCALES)}.")
    if not (name or list_studies or report):
        raise InputError("Give the name of a study, all, --list or --report FOLDER.")
    for entry in studies_named(name, STUDIES) if name else ():
        _run(entry.name, scale, folder=folder, seed=seed)
    stored = {entry.name: latest(entry.name, folder) for entry in STUDIES}
    if list_studies:
        for entry in STUDIES:
            result = stored[entry.name]
            state = (
                "not run"
                if result is None
                else f"{result.date}  {result.scale:<6}  {result.result.verdict}"
            )
            typer.echo(f"{entry.name:<16}  {state:<40}  {entry.title}")
    if report is not None:
        from benchmarks.studies.registry import NOT_RUN
        from benchmarks.studies.report import write_report

        results = {key: result for key, result in stored.items() if result is not None}
        write_report(STUDIES, results, NOT_RUN, report)


def _run(name: str, scale: str, *, folder: Path, seed: int) -> None:
    """Run one study, store its result and print the verdict."""
    from bandgap.foundation.machine import set_threads
    from benchmarks.studies.cpu_time import cpu_seconds
    from benchmarks.studies.registry import STUDIES
    from benchmarks.studies.results import save
    from benchmarks.studies.study import SCALES

    set_threads()
    entry = next(entry for entry in STUDIES if entry.name == name)
    chosen_scale = next(known_scale for known_scale in SCALES if known_scale == scale)
    started = cpu_seconds()
    result = entry.run(chosen_scale, seed)
    seconds = cpu_seconds() - started
    save(entry, result, scale=chosen_scale, seed=seed, seconds=seconds, folder=folder)
    typer.echo(f"{name}, {scale}, {seconds:.1f} s of CPU time: {result.summary}")
