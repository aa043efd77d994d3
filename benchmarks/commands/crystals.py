"""`python -m benchmarks crystals`: methods and peers on crystals of any elements."""

import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
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
    from benchmarks.crystal_criteria import ByFit, Proposed
    from benchmarks.paired import Difference

# Figure, title, decimals, factor.
COLUMNS = (
    ("rmse_eV", "RMSE (eV)", 3, 1.0),
    ("crps_eV", "CRPS (eV)", 3, 1.0),
    ("coverage_95", "coverage of 95 % (%)", 1, 100.0),
    ("width_95_eV", "width of 95 % (eV)", 2, 1.0),
)


def crystals(
    data: DataFolder,
    out: ResultsFolder,
    methods: Annotated[
        list[str],
        typer.Option(
            "--method",
            help="A method; NAME+levels with electron levels (organic), NAME+molecules with those "
            "of the molecules (perovskites), NAME+hueckel with those by Hückel's method (both "
            "sets), NAME+both with these and electron levels (organic). Transfer methods are left "
            "out on inorganic. May be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="perovskites, inorganic, organic or measured. May be repeated. Default: all.",
        ),
    ] = [],  # noqa: B006
    sizes: Annotated[
        list[int], typer.Option("--n", min=5, help="Sizes of the training set, for all sets.")
    ] = [],  # noqa: B006
    n_test: Annotated[
        int | None, typer.Option(min=2, help="Number of test structures, for all sets.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    peers: Annotated[
        bool, typer.Option(help="Whether scikit-learn's methods are compared.")
    ] = True,
    potentials: Potentials = [],  # noqa: B006
    bonds: Annotated[
        bool,
        typer.Option("--bonds", help="Methods without a source also get the block bonds."),
    ] = False,
    source: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Shipped source of transfer methods, such as pbe. Default: that of each set.",
        ),
    ] = "",
    unseen: Annotated[
        bool,
        typer.Option("--unseen", help="Leave out structures whose formula is in its data."),
    ] = False,
    table: ErrorTable = None,
    jobs: options.Jobs = 1,
) -> None:
    """Compare methods, and scikit-learn's, on four sets of crystals.

    Gaps are HSE for perovskites, PBE for inorganic and organic crystals, and measured. All sets,
    sizes and seeds take hours. An interrupted call resumes when it is repeated.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.crystal_peers import PEERS
    from benchmarks.crystals import (
        METHODS,
        SETS,
        CrystalsBenchmark,
        errors_file,
        measured_rows,
        run_crystals,
        write_rows,
    )
    from benchmarks.paired import read_errors, read_scores

    set_threads()
    if unseen and table is not None:
        raise typer.BadParameter("--unseen: the table has rows of all structures of a set.")
    config = CrystalsBenchmark(
        tuple(methods) or METHODS,
        tuple(sets or SETS),
        tuple(range(seeds)),
        tuple(sizes),
        n_test,
        peers,
        potentials=tuple(potentials) or None,
        bonds=bonds,
        shipped=source,
        unseen=unseen,
    )
    fits: dict[str, list[ComparedFit]] = {}
    with progress_bars() as progress:
        for name, fit in run_crystals(
            data, out, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress
        ):
            fits.setdefault(name, []).append(fit)
    for name, fits_of_set in fits.items():
        print_crystals(name, fits_of_set)
        errors = errors_file(out, name)
        print_criteria(
            fits_of_set,
            {"rmse_eV": read_errors(errors), "crps_eV": read_scores(errors)},
            method=SETS[name].proposed_among([fit.method for fit in fits_of_set]),
        )
    for peer in PEERS if peers else ():
        if not peer.installed:
            typer.echo(
                f"{peer.name}: left out, because the package {peer.package} is not installed.",
                err=True,
            )
    if table is not None:
        command = f"python -m benchmarks {' '.join(without_paths(sys.argv[1:]))}"
        today = datetime.now(UTC).date().isoformat()
        for name, fits_of_set in fits.items():
            write_rows(table, measured_rows(name, fits_of_set, config, date=today, command=command))
        typer.echo(f"{table}: the rows of these methods are replaced.")
    typer.echo(f"{out}: one file for each set, with one line for each fit.")


def print_crystals(name: str, fits: "Sequence[ComparedFit]") -> None:
    """Print a table for each size: methods by figures, mean and standard error over splits."""
    from bandgap.runs.compared_fits import summary

    summaries = {figure: summary(fits, figure) for figure, *_ in COLUMNS}
    for n in sorted({fit.n for fit in fits}):
        seeds = len({fit.seed for fit in fits if fit.n == n})
        methods = [
            method
            for method in summaries["rmse_eV"]
            if any((f.method, f.n) == (method, n) for f in fits)
        ]
        rows = []
        for method in methods:
            cells = [
                _cell(*summaries[figure][method][n], digits, factor)
                for figure, _, digits, factor in COLUMNS
            ]
            rows.append((method, *cells))
        spread = " +- standard error" if seeds > 1 else ""
        typer.echo(
            f"\n{name}, n = {n}: mean over {seeds} {'split' if seeds == 1 else 'splits'}{spread}"
        )
        print_table(("", *(title for _, title, _, _ in COLUMNS)), rows)
    for warning in dict.fromkeys(
        f"{fit.method}, n = {fit.n}: {text}" for fit in fits for text in fit.warnings
    ):
        typer.echo(f"Warning: {warning}", err=True)


def print_criteria(
    fits: "Sequence[ComparedFit]", values_by_fit: "Mapping[str, ByFit]", *, method: str
) -> None:
    """Print for each size the best method against the best peer, and the proposed method.

    `values_by_fit` has the errors and scores of single structures, by name of the figure.
    """
    from benchmarks.crystal_criteria import FIGURES, best_of_both, proposed

    for n in sorted({fit.n for fit in fits}):
        for figure, title in FIGURES.items():
            if best := best_of_both(fits, values_by_fit[figure], figure=figure, n=n):
                difference = _difference(best.difference)
                typer.echo(f"n = {n}: {best.ours} minus {best.peer}, {title}: {difference}.")
        if comparison := proposed(fits, n, method=method, values_by_fit=values_by_fit):
            typer.echo(f"n = {n}: {method}, {_proposed(comparison)}")
            for figure, (_, other) in comparison.above.items():
                difference = _difference(comparison.differences[figure])
                typer.echo(f"n = {n}: {method} minus {other}, {FIGURES[figure]}: {difference}.")


def _difference(difference: "Difference | None") -> str:
    from benchmarks.paired import RESAMPLES

    if difference is None:
        return "not available, because values of single structures are missing"
    return (
        f"{difference.difference_eV:+.3f} eV (95 % of {RESAMPLES:,} resamplings of the test "
        f"structures: {difference.lower_eV:+.3f} to {difference.upper_eV:+.3f})"
    )


def _proposed(comparison: "Proposed") -> str:
    from benchmarks.crystal_criteria import COVERAGE, FIGURES, NEAR_PERCENT

    above = " and ".join(
        f"{abs(percent):.1f} % {'below' if percent < 0 else 'above'} the lowest {FIGURES[figure]} "
        f"of the others ({best})"
        for figure, (percent, best) in comparison.above.items()
    )
    low, high = (f"{100 * end:.0f}" for end in COVERAGE)
    near = "within" if comparison.near else "not within"
    covers = "within" if comparison.covers else "not within"
    return (
        f"which the page Train proposes, is {above}, {near} {NEAR_PERCENT:.0f} %. "
        f"Its coverage of {100 * comparison.coverage:.1f} % is {covers} {low} to {high} %."
    )


def _cell(mean: float, error: float, digits: int, factor: float) -> str:
    # The error is NaN if there is only one split.
    spread = "" if math.isnan(error) else f" +- {factor * error:.{digits}f}"
    return f"{factor * mean:.{digits}f}{spread}"
