"""`python -m benchmarks posterior`: effective draws per second, compared with NumPyro's NUTS."""

from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table


def posterior(
    n: Annotated[int, typer.Option(min=10, help="Crystals to train on.")] = 500,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each sampler.")] = 1,
    minutes: Annotated[float, typer.Option(help="Limit of wall-clock time of a sampler.")] = 30.0,
    ess: Annotated[
        float,
        typer.Option(
            help="A sampler ends at this smallest effective sample size, if R-hat is low enough."
        ),
    ] = 100.0,
    warmup: Annotated[
        int, typer.Option(min=20, help="Warm-up iterations of NUTS. bandgap has its own number.")
    ] = 300,
    chains: Annotated[int, typer.Option(min=2, help="Chains of each sampler.")] = 4,
    perovskites: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with the data sets, whose perovskites replace the demo's crystals.",
        ),
    ] = None,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare BTL-PCP-PE's sampler with NumPyro's NUTS on the same posterior.

    Prints effective draws per second, R-hat and posterior means of the chains, each in a process
    with one thread. A repeat takes up to an hour. With --json, an interrupted call resumes after
    the last sampler that ended. Needs the packages of the extra named bench (NumPyro, jax).
    """
    from benchmarks.posterior import PosteriorBenchmark, run_benchmark

    config = PosteriorBenchmark(
        n=n,
        chains=chains,
        repeats=repeats,
        minutes=minutes,
        ess=ess,
        warmup=warmup,
        seed=seed,
        perovskites=str(perovskites or ""),
    )
    with progress_bars() as progress:
        result = run_benchmark(config, file=json_file, cache=descriptor_cache(), progress=progress)
    print_posterior(result)


def print_posterior(result: dict[str, Any]) -> None:
    """Print the quantities of each sampler, and how the samplers differ."""
    for number, sides in enumerate(result["repeats"], start=1):
        typer.echo(f"Run {number} of {len(result['repeats'])}")
        for name, side in sides.items():
            _print_side(name, side)
        _print_comparison(sides)
    if len(result["repeats"]) > 1:
        _print_medians(result["repeats"])
    settings = result["settings"]
    typer.echo(
        f"{settings['n']} crystals, {settings['chains']} chains of one thread each on "
        f"{result['cores']} cores, warm-up of {settings['own_warmup']} iterations of bandgap, "
        f"{settings['warmup']} of NUTS; torch {result['torch']}, jax {result['jax']}, "
        f"numpyro {result['numpyro']}. Seconds are CPU seconds, means over chains."
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
        f"{side['draws']} draws per chain in {side['sampling_s']:.0f} s after a warm-up of "
        f"{side['warmup_s']:.0f} s (compiled in {side['prepare_s']:.0f} s; "
        f"{side['wall_s']:.0f} s of wall-clock time). Smallest: {side['worst']}, "
        f"{side['ess_per_s']:.3g} effective draws per second, "
        f"{side['ess_per_s_with_warmup']:.3g} with warm-up."
    )


def _print_comparison(sides: dict[str, Any]) -> None:
    from benchmarks.posterior import OURS, compare_sides

    for name, side in sides.items():
        if name == OURS:
            continue
        comparison = compare_sides(sides[OURS], side)
        scales = ", ".join(f"{key} {score:+.1f}" for key, score in comparison["z"].items())
        typer.echo(
            f"{OURS} compared with {name}: {comparison['ratio']:.1f} times the effective draws "
            f"per second, {comparison['ratio_with_warmup']:.1f} times with warm-up. Differences of "
            f"the means in Monte-Carlo errors: {scales}; predictions "
            f"{comparison['z_predictions_rms']:.2f} in the root mean square, largest "
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
                f"Median of {len(comparisons)} runs compared with {name}: {ratio:.1f} times the "
                f"effective draws per second, {ratio_with_warmup:.1f} times with warm-up."
            )
