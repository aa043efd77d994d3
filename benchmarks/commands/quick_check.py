"""`python -m benchmarks quick-check`: cross-validation on the user's labels against the table."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.options import DataFolder

HEADER = (
    "set",
    "splits",
    "proposed (eV)",
    "chosen by validation (eV)",
    "chosen - proposed (eV)",
    "best of the candidates (eV)",
    "choice changed",
    "CPU seconds a split",
)


def quick_check(
    data: DataFolder,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="organic, perovskites or inorganic. May be repeated. Default: all of them.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Store each fit here. A later call resumes from it."),
    ] = None,
    jobs: options.Jobs = 1,
    json_file: options.JsonFile = None,
) -> None:
    """Compare the proposed method with the one that cross-validation on the labels would choose.

    Errors are RMSE on test structures, means over the splits; the difference has its interval of
    95 %. The best of the candidates is known only afterwards.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.kept_parts import Parts
    from benchmarks.quick_check import CANDIDATES, QuickCheck, choices_of, run_quick_check

    set_threads()
    config = QuickCheck(tuple(sets or CANDIDATES), tuple(range(seeds)))
    parts = Parts(out)
    rows = []
    figures: list[dict[str, Any]] = []
    with progress_bars() as progress:
        for name in config.sets:
            candidates = list(
                run_quick_check(
                    name,
                    data,
                    config,
                    parts=parts,
                    cache=descriptor_cache(),
                    n_jobs=jobs,
                    progress=progress,
                )
            )
            figures += [{"set": name, **asdict(candidate)} for candidate in candidates]
            choices = choices_of(candidates, proposed=CANDIDATES[name][0])
            difference, half = choices.difference()
            rows.append(
                (
                    name,
                    str(seeds),
                    f"{choices.proposed_eV.mean():.3f}",
                    f"{choices.chosen_eV.mean():.3f}",
                    f"{difference:+.3f} ± {half:.3f}",
                    f"{choices.best_eV.mean():.3f}",
                    f"{choices.n_changed} of {seeds}",
                    f"{choices.seconds:.0f}",
                )
            )
    print_table(HEADER, rows)
    write_figures(json_file, {"candidates": figures})
