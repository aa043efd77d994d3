"""`python -m benchmarks metals`: a probability of a metal against zeros learned as other gaps."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table
from benchmarks.commands.options import DataFolder

if TYPE_CHECKING:
    from benchmarks.metals import MetalsFit

# Figure, title, decimals, factor.
COLUMNS = (
    ("rmse_eV", "RMSE (eV)", 3, 1.0),
    ("crps_eV", "CRPS (eV)", 3, 1.0),
    ("auc", "AUC", 3, 1.0),
    ("coverage", "coverage of 95 % (%)", 1, 100.0),
    ("coverage_large", "above 1 eV (%)", 1, 100.0),
    ("below_zero", "begin below 0 (%)", 1, 100.0),
    ("width_eV", "width (eV)", 2, 1.0),
    ("width_certain_eV", "width, p_metal > .95 (eV)", 2, 1.0),
    ("seconds", "seconds", 1, 1.0),
)


def metals(
    data: DataFolder,
    methods: Annotated[
        list[str], typer.Option("--method", help="A method without transfer. May be repeated.")
    ] = ["stacking"],  # noqa: B006 - typer copies it
    n: Annotated[int, typer.Option(min=40, help="Number of training structures.")] = 400,
    n_test: Annotated[int, typer.Option(min=10, help="Number of test structures.")] = 200,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every split to this file.")
    ] = None,
    jobs: options.Jobs = 1,
) -> None:
    """Compare a probability of a metal with zeros that are learned as any other gap.

    The set is perovskites with GLLB-SC gaps, 70 % of them metals. Both sides have the same splits.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.metals import MetalsBenchmark, as_dict, run_metals

    set_threads()
    config = MetalsBenchmark(tuple(methods), n, n_test, tuple(range(seeds)))
    with progress_bars() as progress:
        fits = list(
            run_metals(data, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress)
        )
    for method in config.methods:
        print_metals(method, [fit for fit in fits if fit.method == method])
    if json_file is not None:
        rows = [as_dict(fit) for fit in fits]
        json_file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def print_metals(method: str, fits: "Sequence[MetalsFit]") -> None:
    """Print the means over splits of both sides, and the sums that all splits give together."""
    import numpy as np

    from benchmarks.metals import SIDES

    rows = []
    means = {}
    for side in SIDES:
        side_fits = [fit for fit in fits if fit.side == side]
        means[side] = float(np.mean([fit.crps_eV for fit in side_fits]))
        cells = []
        for figure, _, digits, factor in COLUMNS:
            values = np.array([getattr(fit, figure) for fit in side_fits], dtype=np.float64)
            weights = np.array([_rows_of(fit, figure) for fit in side_fits], dtype=np.float64)
            is_counted = weights > 0
            if not is_counted.any():
                cells.append("-")
                continue
            mean = np.average(values[is_counted], weights=weights[is_counted])
            cells.append(f"{factor * mean:.{digits}f}")
        rows.append((side, *cells))
    n_splits = len({fit.seed for fit in fits})
    typer.echo(f"\n{method}: {n_splits} {'split' if n_splits == 1 else 'splits'}")
    print_table(("", *(title for _, title, _, _ in COLUMNS)), rows)
    before, after = (means[side] for side in SIDES)
    typer.echo(f"CRPS with metals: {100 * (after / before - 1):+.1f} %.")


def _rows_of(fit: "MetalsFit", figure: str) -> float:
    """Return the number of rows of a figure, by which splits are weighed."""
    counts = {"coverage_large": fit.n_large, "width_certain_eV": fit.n_certain}
    return float(counts.get(figure, 1))
