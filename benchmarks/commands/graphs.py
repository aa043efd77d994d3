"""`python -m benchmarks graphs`: graphs generated edge by edge against synthetic test sets."""

import dataclasses
import math
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures

HEADER = ("set", "graphs", "degree", "clustering", "spectrum", "density (KS)", "exact (%)", "s")


def graphs(
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="cycles, ladders, trees or barabasi-albert. May be repeated. Default: all of "
            "them.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    networks: Annotated[
        list[str],
        typer.Option(
            "--network",
            help="plain, times or remaining edges. May be repeated. Default: all of them.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    n: Annotated[int, typer.Option(min=20, help="Training graphs of each set.")] = 900,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of a training.")] = 600,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare graphs that networks generate with test sets, by degrees, clustering and spectra.

    The distances are MMD, that of densities is the Kolmogorov-Smirnov statistic. DeepGMG and the
    other rows of the thesis are its printed numbers.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.graphs import NETWORKS, SETS, GraphsBenchmark, run_graphs

    set_threads()
    config = GraphsBenchmark(n_training=n, n_steps=steps, seed=seed)
    with progress_bars() as progress:
        rows = run_graphs(config, sets or list(SETS), networks or list(NETWORKS), progress=progress)
    print_table(
        HEADER,
        [
            [
                row.set_name,
                row.graphs,
                *(f"{distance:.4f}" for distance in row.distances),
                "" if math.isnan(row.exact_share) else f"{100 * row.exact_share:.0f}",
                "" if math.isnan(row.seconds) else f"{row.seconds:.0f}",
            ]
            for row in rows
        ],
        text_columns=("set", "graphs"),
    )
    write_figures(
        json_file,
        {"config": dataclasses.asdict(config), "rows": [row.to_values() for row in rows]},
    )
