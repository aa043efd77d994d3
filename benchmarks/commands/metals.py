"""`python -m benchmarks metals`: a probability of a metal against zeros learned as other gaps."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table
from benchmarks.commands.options import (
    DataFolder,
    ErrorTable,
    Potentials,
    ResultsFolder,
    without_paths,
)

if TYPE_CHECKING:
    from bandgap.runs.compared_fits import ComparedFit

# Figure, title, decimals, factor.
COLUMNS = (
    ("rmse_eV", "RMSE (eV)", 3, 1.0),
    ("crps_eV", "CRPS (eV)", 3, 1.0),
    ("auc", "AUC", 3, 1.0),
    ("coverage_95", "coverage of 95 % (%)", 1, 100.0),
    ("expected_coverage", "expected (%)", 1, 100.0),
    ("coverage_large", "above 1 eV (%)", 1, 100.0),
    ("below_zero", "begin below 0 (%)", 1, 100.0),
    ("width_eV", "width (eV)", 2, 1.0),
    ("width_certain_eV", "width, p_metal > .95 (eV)", 2, 1.0),
    ("seconds", "seconds", 1, 1.0),
)
# Figures of some of the rows, with the figure that is the number of these.
COUNTS = {"coverage_large": "n_large", "width_certain_eV": "n_certain"}


def metals(
    data: DataFolder,
    out: ResultsFolder,
    methods: Annotated[
        list[str],
        typer.Option("--method", help="A method; transfer needs --source. May be repeated."),
    ] = ["stacking"],  # noqa: B006 - typer copies it
    sizes: Annotated[
        list[int],
        typer.Option("--n", min=40, help="Number of training structures. May be repeated."),
    ] = [400],  # noqa: B006
    n_test: Annotated[int, typer.Option(min=10, help="Number of test structures.")] = 200,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    potentials: Potentials = [],  # noqa: B006
    source: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Source of transfer methods; inorganic: the shipped one."),
    ] = None,
    zeros_as_gaps: Annotated[
        bool, typer.Option(help="Whether methods are also fitted to zeros as any other gap.")
    ] = True,
    table: ErrorTable = None,
    jobs: options.Jobs = 1,
) -> None:
    """Compare a probability of a metal with zeros that are learned as any other gap.

    The set is perovskites with GLLB-SC gaps, 70 % of them metals. Both sides have the same splits.
    An interrupted call resumes when it is repeated.
    """
    from bandgap.datasets.shipped_models import folder_of_source
    from bandgap.foundation.machine import set_threads
    from benchmarks.commands.crystals import print_criteria
    from benchmarks.crystals import write_rows
    from benchmarks.metals import (
        AS_GAPS,
        ERRORS,
        PEROVSKITES,
        RESULTS,
        MetalsBenchmark,
        measured_rows,
        run_metals,
    )
    from benchmarks.paired import read_errors, read_scores

    set_threads()
    config = MetalsBenchmark(
        tuple(methods),
        tuple(sizes),
        n_test,
        tuple(range(seeds)),
        tuple(potentials) or None,
        folder_of_source(source),
        zeros_as_gaps,
    )
    with progress_bars() as progress:
        fits = list(
            run_metals(data, out, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress)
        )
    for n in config.sizes:
        for method in config.methods:
            print_metals(method, [fit for fit in fits if fit.n == n])
    print_criteria(
        [fit for fit in fits if not fit.method.endswith(AS_GAPS)],
        {"rmse_eV": read_errors(out / ERRORS), "crps_eV": read_scores(out / ERRORS)},
        method=PEROVSKITES.proposed,
    )
    if table is not None:
        command = f"python -m benchmarks {' '.join(without_paths(sys.argv[1:]))}"
        today = datetime.now(UTC).date().isoformat()
        write_rows(table, measured_rows(fits, config, date=today, command=command))
        typer.echo(f"{table}: the rows of these methods are replaced.")
    typer.echo(f"{out / RESULTS}: one line for each fit.")


def print_metals(method: str, fits: "Sequence[ComparedFit]") -> None:
    """Print the means over the splits of one size, of the sides of a method that were fitted.

    Figures of some of the rows are means over the rows of all splits.
    """
    import numpy as np

    from benchmarks.metals import AS_GAPS

    sides = {"zeros as gaps": f"{method}{AS_GAPS}", "with metals": method}
    rows = []
    crps_eV = []
    for title, name in sides.items():
        side_fits = [fit for fit in fits if fit.method == name]
        if not side_fits:
            continue
        cells = []
        for figure, _, digits, factor in COLUMNS:
            values = [
                fit.seconds if figure == "seconds" else fit.figures.get(figure, 0.0)
                for fit in side_fits
            ]
            weights = [fit.figures[COUNTS[figure]] if figure in COUNTS else 1 for fit in side_fits]
            if not any(weights):
                cells.append("-")
                continue
            cells.append(f"{factor * np.average(values, weights=weights):.{digits}f}")
        crps_eV.append(float(np.mean([fit.figures["crps_eV"] for fit in side_fits])))
        rows.append((title, *cells))
    n_splits = len({fit.seed for fit in fits})
    splits = f"{n_splits} {'split' if n_splits == 1 else 'splits'}"
    typer.echo(f"\n{method}, n = {fits[0].n}: {splits}")
    print_table(("", *(title for _, title, _, _ in COLUMNS)), rows)
    if len(crps_eV) == len(sides):
        before, after = crps_eV
        typer.echo(f"CRPS with metals: {100 * (after / before - 1):+.1f} %.")
