"""`python -m benchmarks weighted-conformal`: conformal intervals under a shift of composition."""

from typing import Annotated, Any

import numpy as np
import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.options import DataFolder

HEADER = (
    "set",
    "share of the test kind (%)",
    "weights",
    "coverage (%)",
    "range (%)",
    "coverage where finite (%)",
    "infinite (%)",
    "median half-width (sd)",
    "effective n",
)


def weighted_conformal(
    data: DataFolder,
    sets: Annotated[
        list[str],
        typer.Option("--set", help="demo or organic. May be repeated. Default: both."),
    ] = [],  # noqa: B006 - typer copies it
    n: Annotated[int, typer.Option(min=40, help="Structures that are learned from.")] = 300,
    calibration: Annotated[int, typer.Option(min=20, help="Calibration structures.")] = 200,
    test: Annotated[
        int, typer.Option(min=20, help="Test structures, and as many without gaps for weights.")
    ] = 250,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    jobs: options.Jobs = 1,
    json_file: options.JsonFile = None,
) -> None:
    """Compare weighted with ordinary conformal 95 % intervals on structures of another kind.

    Test structures contain S, Cl, Br or I. The other structures do not, or 10 % of them do.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.weighted_conformal import (
        SHIFTED_SETS,
        WEIGHTS,
        ShiftBenchmark,
        check_set,
        run_shift,
    )

    names = sets or list(SHIFTED_SETS)
    for name in names:
        check_set(name)
    set_threads()
    figures: dict[str, list[dict[str, Any]]] = {}
    config = ShiftBenchmark(n, calibration, test, test, seeds=tuple(range(seeds)))
    with progress_bars() as progress:
        for name in names:
            figures[name] = run_shift(
                name, data, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress
            )
    rows = []
    for name, entries in figures.items():
        for share in config.shares:
            of_share = [entry["intervals"] for entry in entries if entry["share"] == share]
            rows += [_row(name, share, w, [entry[w] for entry in of_share]) for w in WEIGHTS]
    print_table(HEADER, rows)
    write_figures(json_file, figures)


def _row(name: str, share: float, weights: str, entries: list[dict[str, float]]) -> list[str]:
    """Return the medians over the splits, and the range of the coverage."""

    def column(figure: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([entry[figure] for entry in entries])

    coverage = 100 * column("coverage")
    return [
        name,
        f"{100 * share:.0f}",
        weights,
        f"{np.median(coverage):.1f}",
        f"{coverage.min():.1f} to {coverage.max():.1f}",
        f"{100 * np.nanmedian(column('coverage_of_finite')):.1f}",
        f"{100 * np.median(column('infinite_share')):.1f}",
        f"{np.median(column('median_half_width_sd')):.2f}",
        f"{np.median(column('effective_n')):.0f}",
    ]
