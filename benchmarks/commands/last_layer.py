"""`python -m benchmarks last-layer`: samplers of the output layer against Gibbs sampling."""

from typing import Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures

ROWS = [200, 500, 2000]


def last_layer(
    n: Annotated[
        list[int], typer.Option("--n", min=5, help="Training rows. May be repeated.")
    ] = ROWS,
    repeats: Annotated[
        int, typer.Option(min=1, help="Parts of a run. Medians of their rates are shown.")
    ] = 5,
    sweeps: Annotated[int, typer.Option(min=20, help="Timed sweeps of each of two chains.")] = 2000,
    change: Annotated[
        Literal["sparse", "dense"],
        typer.Option(help="Whether 25 output weights change, or all of them."),
    ] = "sparse",
    accuracy: Annotated[
        bool, typer.Option(help="Also compare errors and intervals, and dead units.")
    ] = True,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare the horseshoe's sampler with Cholesky factorisations and plain Gibbs sampling.

    The defaults take about 5 minutes on one idle core.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.last_layer import LastLayerBenchmark, run_benchmark
    from benchmarks.last_layer_design import LastLayerDesign
    from benchmarks.last_layer_speed import SpeedRun

    set_threads()
    config = LastLayerBenchmark(
        sizes=tuple(n),
        design=LastLayerDesign(change=change),
        speed=SpeedRun(sweeps=sweeps, repeats=repeats),
        accuracy=accuracy,
        seed=seed,
    )
    with progress_bars() as progress:
        result = run_benchmark(config, progress=progress)
    print_last_layer(result)
    write_figures(json_file, result)


def print_last_layer(result: dict[str, Any]) -> None:
    """Print rates and effective draws, then errors and intervals for each number of rows."""
    _print_speed(result)
    for n, size in result["sizes"].items():
        fits = size["pcp"]
        units = result["units"]
        typer.echo(
            f"{n} rows: {size['n_dropped']} of {units} units dropped; "
            f"fit by PCP {fits['seconds']:.2f} s, as long as "
            f"{fits['in_dpotrf']:.0f} factorisations of {units} x {units}."
        )
        if size["methods"]:
            _print_methods(size["methods"])
    if result["dead"]:
        _print_dead(result["dead"])


def _print_speed(result: dict[str, Any]) -> None:
    rows = []
    for n, size in result["sizes"].items():
        speed = size["speed"]
        for side, row in speed["sides"].items():
            rates = (
                f"{row['sweeps_per_second']:.0f}",
                f"{speed['dpotrf_per_second']:.0f}",
                f"{row['of_dpotrf']:.2f}",
            )
            draws = f"{row['ess_tau_per_1000']:.0f}", f"{row['ess_tau_per_second']:.1f}"
            form = f"{speed['form']}, halves" if speed["in_halves"][side] else speed["form"]
            rows.append((str(n), side, form, *rates, *draws, f"{row['ess_fit_per_second']:.0f}"))
    columns = (
        "rows",
        "",
        "form",
        "sweeps/s",
        "dpotrf/s",
        "ratio",
        "tau: ESS per 1,000",
        "per s",
        "fit: ESS per s",
    )
    print_table(columns, rows, text_columns=("", "form"), width=120)
    units = result["units"]
    typer.echo(
        f"{result['sweeps']} sweeps of each. Rates are medians of {result['repeats']} parts, "
        f"timed in turn. dpotrf is a Cholesky factorisation of {units} x {units}. "
        "ESS: of log tau, and the median over predictions."
    )


def _print_methods(methods: dict[str, Any]) -> None:
    columns = ("", "test MSE", "expected", "coverage of 95 %", "mean width")
    rows = [
        (name, f"{row['mse']:.3f}", _range(row["expected_mse"]), _share(row), _width(row))
        for name, row in methods.items()
    ]
    print_table(columns, rows, width=120)


def _print_dead(dead: dict[str, Any]) -> None:
    typer.echo(
        f"{dead['units']} units are dead on {dead['n']} training rows and alive on test rows. "
        "Two runs of the horseshoe:"
    )
    for name, runs in dead["runs"].items():
        dropped = {run["n_dropped"] for run in runs}
        errors = " and ".join(f"{run['mse']:.3g}" for run in runs)
        widths = " and ".join(f"{run['width']:.3g}" for run in runs)
        shares = " and ".join(_share(run) for run in runs)
        typer.echo(
            f"{name}: {', '.join(map(str, sorted(dropped)))} units dropped, test MSE {errors}, "
            f"mean width {widths}, coverage {shares}."
        )


def _range(expected: tuple[float, float] | None) -> str:
    if expected is None:
        return "-"
    low, high = expected
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _share(row: dict[str, Any]) -> str:
    return "-" if row["coverage"] is None else f"{100 * row['coverage']:.1f} %"


def _width(row: dict[str, Any]) -> str:
    return "-" if row["width"] is None else f"{row['width']:.2f}"
