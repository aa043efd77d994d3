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
            help="smoke (seconds), laptop (all: ten hours of CPU time) or paper (its sizes)."
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
    """Recompute a table or figure of a paper, and compare it with the printed numbers.

    Finished splits are in the folder "parts" of the results. The same call resumes after them,
    also after the last one, unless the code has changed.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.kept_parts import Parts
    from benchmarks.studies.registry import NOT_RUN, STUDIES
    from benchmarks.studies.report import write_report
    from benchmarks.studies.results import FOLDER, commit, latest, save
    from benchmarks.studies.study import SCALES

    folder = out or FOLDER
    if scale not in SCALES:
        raise InputError(f"There is no scale {scale}. Accepted: {', '.join(SCALES)}.")
    chosen_studies = [entry for entry in STUDIES if name in ("all", entry.name)]
    if not (chosen_studies or (not name and (list_studies or report))):
        names = ", ".join(entry.name for entry in STUDIES)
        raise InputError(f"There is no study {name!r}. Accepted: all, {names}.")
    set_threads()
    for entry in chosen_studies:
        parts = Parts(folder / "parts" / f"{entry.name}.jsonl")
        result = entry.run(scale, seed, parts, commit=commit())
        save(result, scale=scale, seed=seed, folder=folder)
        typer.echo(f"{entry.name}, {scale}, {result.seconds:.1f} s of CPU time: {result.summary}")
    stored = {entry.name: one for entry in STUDIES if (one := latest(entry, folder))}
    for entry in STUDIES if list_studies else ():
        state = "not run"
        if entry.name in stored:
            last = stored[entry.name]
            state = f"{last.date}  {last.scale:<6}  {last.result.verdict}"
        typer.echo(f"{entry.name:<16}  {state:<40}  {entry.title}")
    if report is not None:
        write_report(STUDIES, stored, NOT_RUN, report)
