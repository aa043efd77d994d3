"""`python -m benchmarks sgmcmc`: stochastic-gradient MCMC where labels are many."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.parts import PartsFile, report_resumed_parts


def sgmcmc(
    data: Annotated[Path, typer.Option(help="Folder that holds qm9_gap/qm9_gap.extxyz.gz.")],
    n: Annotated[int, typer.Option(min=50, help="Molecules to train on.")] = 8000,
    n_test: Annotated[int, typer.Option(min=20, help="Molecules to test on.")] = 4000,
    n_exact: Annotated[
        int, typer.Option(min=50, help="Molecules of the comparison with HMC.")
    ] = 500,
    warmup: Annotated[
        int | None, typer.Option(min=10, help="Warm-up iterations (default: the method's).")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=10, help="Iterations after it (default: the method's).")
    ] = None,
    prune_share: Annotated[
        list[float] | None,
        typer.Option(
            min=0.0, max=0.99, help="Also with this share of the weights pruned. May be repeated."
        ),
    ] = None,
    timed: Annotated[int, typer.Option(min=20, help="Iterations by which a step is timed.")] = 200,
    repeats: Annotated[
        int, typer.Option(min=1, help="Splits on which all sides are timed; medians are shown.")
    ] = 3,
    seed: options.Seed = 0,
    parts_file: PartsFile = None,
    json_file: options.JsonFile = None,
) -> None:
    """Bayesian transfer by mini-batches beside nptl and an ensemble in the same time, and beside HMC at few rows.

    With the defaults it takes one to three hours of an idle core, split by split: give --parts. Pruning and HMC are
    measured on the first split alone.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.kept_parts import Parts
    from benchmarks.sgmcmc import SgmcmcBenchmark, run_benchmark

    set_threads()
    sizes = tuple(size for size in (1000, 2000, 4000, 8000) if size <= n) or (n,)
    config = SgmcmcBenchmark(
        n=n, n_test=n_test, n_exact=n_exact, sizes=sizes, timed=timed, warmup=warmup, draws=draws, seed=seed,
        prune_shares=tuple(prune_share or ()), repeats=repeats,
    )  # fmt: skip
    parts = Parts(parts_file)
    with progress_bars() as progress:
        result = run_benchmark(
            data, config, parts=parts, cache=descriptor_cache(), progress=progress
        )
    print_sgmcmc(result)
    report_resumed_parts(parts.n_resumed)
    write_figures(json_file, result)


def print_sgmcmc(result: dict[str, Any]) -> None:
    """Print the sides at equal time, the agreement with HMC, and what an iteration costs."""
    columns = ("", "RMSE eV", "CRPS eV", "coverage of 90 %", "networks", "processor s")
    rows = [
        (
            name,
            f"{row['rmse_eV']:.4f}",
            f"{row['crps_eV']:.4f}",
            f"{100 * row['coverage']:.1f} %",
            f"{row['networks']:.0f}" if "networks" in row else "",
            f"{row['seconds']:.0f}",
        )
        for name, row in result["sides"].items()
    ]
    print_table(columns, rows, width=100)
    ours = result["sides"]["btl_pcp_sg"]
    typer.echo(
        f"{result['n']:,} molecules, {result['n_test']:,} for testing, medians of {result['repeats']}. Chains of "
        f"btl_pcp_sg: R-hat {ours['rhat_max']:.2f} at worst, {ours['rhat_predictions']:.2f} of predictions."
    )
    if result["pruned"]:
        print_pruned(
            {"0": result["each"][0]["btl_pcp_sg"]} | result["pruned"], n_test=result["n_test"]
        )
    agreement = result["agreement"]
    difference = agreement["difference"]
    for name in ("btl_pcp_pe", "btl_pcp_sg"):
        row = agreement[name]
        typer.echo(
            f"{name} at {result['n_exact']:,}: RMSE {row['rmse_eV']:.4f} eV, CRPS {row['crps_eV']:.4f} eV, coverage of "
            f"90 % {100 * row['coverage']:.1f} %, R-hat {row['rhat_max']:.2f}, {row['seconds']:.0f} s."
        )
    typer.echo(
        f"Their means differ by {difference['means_in_sd']:.3f} posterior sd and {difference['means_in_errors']:.2f} "
        f"Monte-Carlo errors (medians over test molecules); ratio of sds {difference['sd_ratio']:.3f}."
    )
    times = ", ".join(f"{int(n):,}: {value:.2f}" for n, value in result["ms_per_iteration"].items())
    typer.echo(f"Milliseconds of an iteration of 4 chains by number of rows: {times}.")


def print_pruned(figures_by_share: Mapping[str, Mapping[str, float]], *, n_test: int) -> None:
    """Print what each share of pruned weights costs in error, and saves in bytes and time."""
    columns = (
        "pruned",
        "RMSE eV",
        "CRPS eV",
        "coverage of 90 %",
        "R-hat of predictions",
        "MB of draws",
        "predicts in s",
    )
    rows = [
        (
            f"{100 * float(share):.0f} %",
            f"{row['rmse_eV']:.4f}",
            f"{row['crps_eV']:.4f}",
            f"{100 * row['coverage']:.1f} %",
            f"{row['rhat_predictions']:.2f}",
            f"{row['stored_MB']:.1f}",
            f"{row['prediction_seconds']:.1f}",
        )
        for share, row in figures_by_share.items()
    ]
    print_table(columns, rows, width=110)
    typer.echo(f"Weights sent back to the source's, of the hidden layers. {n_test:,} predictions.")
