"""`python -m benchmarks next`: labels saved by choosing what to compute next."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table
from benchmarks.commands.options import DataFolder, ResultsFolder

if TYPE_CHECKING:
    from benchmarks.next_labels import NextFit

SETS = ["organic", "perovskites", "metals"]


def next_labels(
    data: DataFolder,
    out: ResultsFolder,
    sets: Annotated[
        list[str], typer.Option("--set", help="organic, perovskites or metals. May be repeated.")
    ] = SETS,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 10,
    n_most: Annotated[int, typer.Option("--n", min=30, help="Largest number of labels.")] = 120,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curves: a PNG or SVG file.")
    ] = None,
    jobs: options.Jobs = 1,
) -> None:
    """Compare chosen with random labels: error by number of labels, and gaps found in a window.

    Every strategy starts from 20 random labels and adds batches of 10. An interrupted call resumes
    when it is repeated.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.next_labels import RESULTS, NextBenchmark, run_next

    set_threads()
    config = NextBenchmark(tuple(sets), seeds=tuple(range(seeds)), n_most=n_most)
    with progress_bars() as progress:
        fits = list(
            run_next(data, out, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress)
        )
    for name in config.sets:
        print_next(fits, name)
    typer.echo(f"{out / RESULTS}: one line for each fit.")
    if figure is not None:
        from benchmarks.next_labels_picture import draw_next

        draw_next(fits, figure)


def print_next(fits: "Sequence[NextFit]", name: str) -> None:
    """Print the means over seeds of every strategy on a set, and the labels that are saved."""
    import numpy as np

    from benchmarks.next_labels import figures_by_strategy, paired_difference, saved_share

    errors = figures_by_strategy(fits, name, "rmse_eV")
    counts = figures_by_strategy(fits, name, "in_window")
    sizes, random_errors = errors["random"]
    columns = [k for k in range(len(sizes)) if k % 2 == 0 or k == len(sizes) - 1]
    typer.echo(f"\n{name}: RMSE (eV) by number of labels, mean of {len(random_errors)} seeds")
    print_table(
        (
            "",
            *(f"{sizes[k]}" for k in columns),
            "difference to random",
            "labels for the last random error",
        ),
        [
            (
                strategy,
                *(f"{values[:, k].mean():.3f}" for k in columns),
                "" if strategy == "random" else paired_difference(values, random_errors),
                "" if strategy == "random" else saved_share(sizes, values, random_errors),
            )
            for strategy, (_, values) in errors.items()
        ],
    )
    n_in_pool = np.mean([fit.n_pool_in_window for fit in fits if fit.set == name])
    typer.echo(f"gaps found in the window, of {n_in_pool:.0f} in the pool")
    print_table(
        ("", *(f"{sizes[k]}" for k in columns)),
        [
            (strategy, *(f"{values[:, k].mean():.1f}" for k in columns))
            for strategy, (_, values) in counts.items()
        ],
    )
