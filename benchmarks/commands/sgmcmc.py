"""`python -m benchmarks sgmcmc`: stochastic-gradient MCMC with many labels."""

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
    data: Annotated[Path, typer.Option(help="Folder that contains qm9_gap/qm9_gap.extxyz.gz.")],
    n: Annotated[int, typer.Option(min=50, help="Molecules to train on.")] = 8000,
    n_test: Annotated[int, typer.Option(min=20, help="Molecules to test on.")] = 4000,
    n_exact: Annotated[
        int, typer.Option(min=50, help="Molecules of the comparison with HMC.")
    ] = 500,
    warmup: Annotated[
        int | None, typer.Option(min=10, help="Warm-up iterations (default: the method's).")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=10, help="Iterations after warm-up (default: the method's).")
    ] = None,
    prune_share: Annotated[
        list[float] | None,
        typer.Option(
            min=0.0, max=0.99, help="Also prune this share of the weights. May be repeated."
        ),
    ] = None,
    timed: Annotated[int, typer.Option(min=20, help="Iterations that time a step.")] = 200,
    repeats: Annotated[
        int, typer.Option(min=1, help="Splits on which all methods are timed. Medians are shown.")
    ] = 3,
    seed: options.Seed = 0,
    parts_file: PartsFile = None,
    json_file: options.JsonFile = None,
) -> None:
    """Compare Bayesian transfer by mini-batches with nptl, an ensemble and HMC.

    nptl and the ensemble get the same CPU time. HMC is compared on few rows. The defaults take one
    to three hours of an idle core: use --parts to store finished splits. Pruning and HMC are
    measured on the first split only.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.kept_parts import Parts
    from benchmarks.sgmcmc import SgmcmcBenchmark, run_benchmark

    set_threads()
    sizes = tuple(size for size in (1000, 2000, 4000, 8000) if size <= n) or (n,)
    config = SgmcmcBenchmark(
        n=n,
        n_test=n_test,
        n_exact=n_exact,
        sizes=sizes,
        timed=timed,
        warmup=warmup,
        draws=draws,
        seed=seed,
        prune_shares=tuple(prune_share or ()),
        repeats=repeats,
    )
    parts = Parts(parts_file)
    with progress_bars() as progress:
        result = run_benchmark(
            data, config, parts=parts, cache=descriptor_cache(), progress=progress
        )
    print_sgmcmc(result)
    report_resumed_parts(parts.n_resumed)
    write_figures(json_file, result)


def print_sgmcmc(result: dict[str, Any]) -> None:
    """Print methods at equal time, the agreement with HMC, and the time of an iteration."""
    columns = ("", "RMSE eV", "CRPS eV", "coverage of 90 %", "networks", "CPU s")
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
        f"{result['n']:,} molecules, {result['n_test']:,} for testing, "
        f"medians of {result['repeats']}. Chains of btl_pcp_sg: largest R-hat "
        f"{ours['rhat_max']:.2f}, of predictions {ours['rhat_predictions']:.2f}."
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
            f"{name} at {result['n_exact']:,}: RMSE {row['rmse_eV']:.4f} eV, "
            f"CRPS {row['crps_eV']:.4f} eV, coverage of 90 % {100 * row['coverage']:.1f} %, "
            f"R-hat {row['rhat_max']:.2f}, {row['seconds']:.0f} s."
        )
    typer.echo(
        f"Their means differ by {difference['means_in_sd']:.3f} posterior sd and "
        f"{difference['means_in_errors']:.2f} Monte-Carlo errors (medians over test molecules); "
        f"ratio of sds {difference['sd_ratio']:.3f}."
    )
    times = ", ".join(f"{int(n):,}: {value:.2f}" for n, value in result["ms_per_iteration"].items())
    typer.echo(f"Milliseconds of an iteration of 4 chains by number of rows: {times}.")


def print_pruned(figures_by_share: Mapping[str, Mapping[str, float]], *, n_test: int) -> None:
    """Print errors, bytes and prediction times for each share of pruned weights."""
    columns = (
        "pruned",
        "RMSE eV",
        "CRPS eV",
        "coverage of 90 %",
        "R-hat of predictions",
        "MB of draws",
        "prediction s",
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
    typer.echo(f"Pruned weights of hidden layers equal the source's. {n_test:,} predictions.")
