"""`python -m benchmarks vecchia`: Vecchia Gaussian processes against other libraries."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.options import DataFolder
from benchmarks.commands.parts import PartsFile, report_resumed_parts


def vecchia(
    data: DataFolder,
    n: Annotated[int, typer.Option(min=10, help="Molecules to train on.")] = 14_000,
    n_test: Annotated[int, typer.Option(min=1, help="Molecules to test on.")] = 2_000,
    neighbours: Annotated[int, typer.Option(min=1, help="Number of conditioning neighbours.")] = 60,
    rivals: Annotated[
        bool, typer.Option("--rivals/--no-rivals", help="Also run the other libraries.")
    ] = True,
    inducing: Annotated[int, typer.Option(min=10, help="Inducing points of SVGP.")] = 1_000,
    exact_rows: Annotated[
        int, typer.Option(min=10, help="Training rows of scikit-learn's exact process.")
    ] = 4_000,
    largest: Annotated[int, typer.Option(min=1_000, help="Sites of the largest field.")] = 64_000,
    chain_sites: Annotated[
        int, typer.Option(min=50, help="Sites of the field that chains run on.")
    ] = 5_000,
    chain_draws: Annotated[
        int, typer.Option(min=20, help="Length of the chains, see above.")
    ] = 4_000,
    accuracy: Annotated[
        bool, typer.Option("--accuracy/--no-accuracy", help="Also learn the gaps of QM9.")
    ] = True,
    repeats: Annotated[
        int, typer.Option(min=1, help="Number of splits, fields and timings. Medians are shown.")
    ] = 3,
    seed: options.Seed = 0,
    parts_file: PartsFile = None,
    json_file: options.JsonFile = None,
) -> None:
    """Compare Vecchia Gaussian processes with GPyTorch and scikit-learn.

    Measures accuracy on QM9 gaps, the time of a pass over all sites, and effective draws per
    second. A pass is timed with compiled loops and, at the smaller sizes, with batched tensors, on
    CUDA too if there is a device.

    The defaults take one to two hours, most of it for the other libraries: start with a small --n,
    or use --parts. SGRLD takes ten times --chain-draws, Metropolis a quarter of it.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.kept_parts import Parts
    from benchmarks.vecchia import VecchiaBenchmark, chains, costs
    from benchmarks.vecchia import accuracy as accuracy_on_splits
    from benchmarks.vecchia_engines import engines

    set_threads()
    sizes = tuple(largest // 2**k for k in range(4, -1, -1))
    config = VecchiaBenchmark(
        n=n,
        n_test=n_test,
        neighbours=neighbours,
        rivals=rivals,
        inducing=inducing,
        exact_rows=exact_rows,
        sizes=sizes,
        chain_sites=chain_sites,
        chain_draws=chain_draws,
        repeats=repeats,
        seed=seed,
    )
    parts = Parts(parts_file)
    settings = asdict(config)
    result: dict[str, Any] = {"settings": settings}
    with progress_bars() as progress:
        result["costs"] = parts.get("costs", settings, partial(costs, config, progress=progress))
        result["engines"] = parts.get(
            "engines", settings, partial(engines, config, progress=progress)
        )
        result["chains"] = chains(config, parts=parts, progress=progress)
        if accuracy:
            cache = descriptor_cache()
            result["accuracy"] = accuracy_on_splits(
                data, config, parts=parts, cache=cache, progress=progress
            )
    print_vecchia(result)
    report_resumed_parts(parts.n_resumed)
    write_figures(json_file, result)


def print_vecchia(result: dict[str, Any]) -> None:
    """Print a table for each part that was measured."""
    if "accuracy" in result:
        print_accuracy(result["accuracy"]["sides"], result["settings"])
        print_fewer_rows(result["accuracy"]["fewer_rows"])
    rows = [
        (f"{row['n']:,.0f}", f"{row['pass_s']:.3f}", f"{1e3 * row['step_s']:.2f}")
        for row in result["costs"]["sizes"]
    ]
    print_table(("sites", "pass with gradient (s)", "step of 250 sites (ms)"), rows)
    typer.echo(
        f"Slope of the pass on log-log: {result['costs']['slope']:.3f}; "
        f"{result['costs']['neighbours']} neighbours, fields in the plane."
    )
    print_engines(result["engines"])
    chains = result["chains"]
    speeds = [
        (
            name,
            f"{side['seconds']:.1f}",
            f"{side['draws']:,.0f}",
            f"{side['worst_ess']:,.0f}",
            f"{side['worst_ess_per_s']:.2f}",
        )
        for name, side in chains["sides"].items()
    ]
    print_table(("", "s", "draws", "smallest ESS", "per second"), speeds)
    largest_difference = max(chains["apart"].values())
    typer.echo(
        f"{chains['sites']:,} sites, step {chains['step']:g}, {chains['batch']} sites a batch: "
        f"SGRLD has {chains['ratio']:.1f} times as many effective draws per second. Means differ "
        f"by at most {largest_difference:.1f} standard errors (the median is "
        f"{max(chains['apart_sd'].values()):.3f} posterior standard deviations). "
        f"Medians of {result['settings']['repeats']}."
    )


def print_engines(devices: dict[str, list[dict[str, float]]]) -> None:
    """Print a table for each device of the batched tensors."""
    for device, rows_of_device in devices.items():
        rows = [
            (
                f"{row['n']:,.0f}",
                f"{row['neighbours']:.0f}",
                *(f"{1e3 * row[f'{side}_pass_s']:.1f}" for side in ("loops", "batched")),
                f"{row['pass_ratio']:.2f}",
                *(f"{1e3 * row[f'{side}_step_s']:.2f}" for side in ("loops", "batched")),
                f"{row['step_ratio']:.2f}",
            )
            for row in rows_of_device
        ]
        columns = (
            "sites",
            "neighbours",
            "pass (ms): loops",
            "batched",
            "ratio",
            "step (ms): loops",
            "batched",
            "ratio",
        )
        print_table(columns, rows, width=120)
        typer.echo(
            f"Loops on one core, batched tensors on: {device}. "
            "If the ratio is below 1, the tensors are faster."
        )


def print_accuracy(sides: dict[str, dict[str, float]], settings: dict[str, Any]) -> None:
    """Print a row for each library."""
    rows = [
        (
            name,
            f"{side['rmse_eV']:.4f}",
            f"{side['crps_eV']:.4f}",
            f"{100 * side['coverage']:.1f} %",
            f"{side['fit_s']:.0f}",
            f"{side['predict_s']:.1f}",
            f"{side['passes']:.0f}" if side.get("passes") else "",
        )
        for name, side in sides.items()
    ]
    print_table(
        ("", "RMSE eV", "CRPS eV", "coverage of 95 %", "fit s", "predict s", "passes"),
        rows,
        width=120,
    )
    typer.echo(
        f"{settings['n']:,} molecules of QM9, {settings['n_test']:,} for testing, features of the "
        "demo's source; CPU seconds, one thread. "
        f"scikit-learn has {settings['exact_rows']:,} rows, SVGP {settings['inducing']:,} inducing "
        f"points. Medians over {settings['repeats']} splits."
    )


def print_fewer_rows(fits_by_rows: dict[str, dict[str, Any]]) -> None:
    """Print the time of a fit for each number of rows."""
    for n, fit in fits_by_rows.items():
        likelihood = "exact" if fit["exact"] else "Vecchia's"
        typer.echo(
            f"A fit to {int(n):,} rows with the default likelihood ({likelihood}): "
            f"{fit['fit_s']:.1f} s."
        )
