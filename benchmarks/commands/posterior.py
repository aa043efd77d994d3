"""`python -m benchmarks posterior`: effective draws per second beside NumPyro's NUTS on the same posterior."""

from statistics import median
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table


def posterior(
    n: Annotated[int, typer.Option(min=10, help="Crystals of the demo to train on.")] = 500,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each side.")] = 1,
    minutes: Annotated[float, typer.Option(help="Limit of a side on the wall clock.")] = 30.0,
    ess: Annotated[
        float,
        typer.Option(
            help="Effective draws of the worst quantity at which a side ends, R-hat sufficing."
        ),
    ] = 100.0,
    warmup: Annotated[
        int, typer.Option(min=20, help="Iterations of warm-up of NUTS; bandgap takes its own.")
    ] = 300,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """BTL-PCP-PE's sampler beside NumPyro's NUTS: effective draws per second, R-hat and posterior means.

    Four chains, each in a process with one thread. Takes up to an hour a repeat; with --json, a call that was
    interrupted goes on after the last side that ended. Needs the packages of the extra named bench (NumPyro, jax).
    """
    from benchmarks.posterior import PosteriorBenchmark, run_benchmark

    config = PosteriorBenchmark(
        n=n, repeats=repeats, minutes=minutes, ess=ess, warmup=warmup, seed=seed
    )
    with progress_bars() as progress:
        result = run_benchmark(config, file=json_file, cache=descriptor_cache(), progress=progress)
    print_posterior(result)


def print_posterior(result: dict[str, Any]) -> None:
    """Print every side's quantities, the ratios and how far the posterior means are from each other."""
    for number, sides in enumerate(result["repeats"], start=1):
        typer.echo(f"Run {number} of {len(result['repeats'])}")
        for name, side in sides.items():
            _print_side(name, side)
        _print_comparison(sides)
    if len(result["repeats"]) > 1:
        _print_medians(result["repeats"])
    settings = result["settings"]
    typer.echo(
        f"{settings['n']} crystals, {settings['chains']} chains of one thread each on {result['cores']} cores, warm-up "
        f"of {settings['own_warmup']} iterations of bandgap, {settings['warmup']} of NUTS; torch {result['torch']}, "
        f"jax {result['jax']}, numpyro {result['numpyro']}. Seconds are processor seconds of the mean chain."
    )


def _print_side(name: str, side: dict[str, Any]) -> None:
    rows = []
    for key, ess in side["ess"].items():
        mean = (
            (f"{side['mean'][key]:.4f}", f"{side['mean_error'][key]:.4f}")
            if key in side["mean"]
            else ("", "")
        )
        rows.append(
            (
                key,
                f"{ess:.0f}",
                f"{ess / side['sampling_s']:.3g}",
                f"{side['rhat'][key]:.3f}",
                *mean,
            )
        )
    print_table((name, "ESS", "ESS/s", "R-hat", "mean", "error of the mean"), rows)
    typer.echo(
        f"{side['draws']} draws a chain in {side['sampling_s']:.0f} s after a warm-up of {side['warmup_s']:.0f} s "
        f"(compiled in {side['prepare_s']:.0f} s; {side['wall_s']:.0f} s on the clock). Worst: {side['worst']}, "
        f"{side['ess_per_s']:.3g} effective draws a second, {side['ess_per_s_with_warmup']:.3g} with warm-up."
    )


def _print_comparison(sides: dict[str, Any]) -> None:
    from benchmarks.posterior import OURS, compare_sides

    for name, side in sides.items():
        if name == OURS:
            continue
        comparison = compare_sides(sides[OURS], side)
        scales = ", ".join(f"{key} {score:+.1f}" for key, score in comparison["z"].items())
        typer.echo(
            f"{OURS} beside {name}: {comparison['ratio']:.1f} times the effective draws per second, "
            f"{comparison['ratio_with_warmup']:.1f} times with warm-up. Differences of the means in Monte-Carlo errors: "
            f"{scales}; predictions {comparison['z_predictions_rms']:.2f} in the mean square, largest "
            f"{comparison['z_predictions_largest']:.1f}."
        )


def _print_medians(repeats: list[dict[str, Any]]) -> None:
    from benchmarks.posterior import OURS, compare_sides

    for name in repeats[0]:
        if name != OURS:
            comparisons = [compare_sides(sides[OURS], sides[name]) for sides in repeats]
            ratio, ratio_with_warmup = (
                median(comparison[key] for comparison in comparisons)
                for key in ("ratio", "ratio_with_warmup")
            )
            typer.echo(
                f"Median of {len(comparisons)} runs beside {name}: {ratio:.1f} times the effective draws per second, "
                f"{ratio_with_warmup:.1f} times with warm-up."
            )
