"""`bandgap bench`: measurements of speed and accuracy, each beside its rival in the same run."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import (
    bench_crystals,
    bench_last_layer,
    bench_networks,
    bench_oe62,
    bench_pbp,
    bench_posterior,
    bench_scale,
    bench_serve,
    bench_sgmcmc,
    bench_vecchia,
    options,
)
from bandgap.cli.bars import progress_bars
from bandgap.cli.commands import CheckedCommand
from bandgap.cli.compare import print_comparison
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures

PEERS = ("kernel_ridge", "gaussian_process", "random_forest", "gradient_boosting")
LEVELS = tuple(f"{name}+levels" for name in ("feature_gp", "last_layer_ridge@1", "fine_tune@1", *PEERS))
METHODS = ("feature_gp", "last_layer_ridge", "last_layer_ridge@1", "fine_tune@1", *PEERS, *LEVELS)
COMPARED = 4  # runs on the page Compare

bench = typer.Typer(no_args_is_help=True)


@bench.callback()
def _root() -> None:
    """Measure speed beside what one would use instead; an idle machine tells the truth."""


def accuracy(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder with the data sets.", envvar="BANDGAP_TEST_DATA")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of source and results; it is gone on with.")],
    methods: Annotated[
        list[str],
        typer.Option(
            "--method",
            help="A method, NAME@K for the first K networks, NAME+levels with electron levels; may be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    sizes: Annotated[list[int], typer.Option("--n", min=1, help="Sizes of the training set.")] = [100, 250, 500, 1000],  # noqa: B006
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    members: Annotated[int, typer.Option(min=1, help="Source networks to train.")] = 4,
    jobs: options.Jobs = 1,
) -> None:
    """Compare methods on organic crystals with PBE gaps; sources QM9, conjugated molecules and OE62 (GW).

    Takes hours with all sizes and seeds; interrupted, it goes on where it was.
    """
    from bandgap.benchmarks.accuracy import RESULTS, AccuracyBenchmark, run_accuracy
    from bandgap.foundation.machine import set_threads

    set_threads()
    config = AccuracyBenchmark(
        tuple(methods) or METHODS, tuple(sizes), tuple(range(first_seed, first_seed + seeds)), members=members
    )
    with progress_bars() as progress:
        fits = list(run_accuracy(data, out, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress))
    print_comparison([f for f in fits if f.n in config.sizes and f.seed in config.seeds])
    typer.echo(f"{out / RESULTS}: one line for every fit.")


def products(
    n: Annotated[int, typer.Option(min=1, help="Rows.")] = 500,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the sampler that are timed together.")] = 200,
    repeats: Annotated[int, typer.Option(min=1, help="Times of each side; medians are compared.")] = 15,
    json_file: options.JsonFile = None,
) -> None:
    """Matrix products of a step of the sampler by torch and by numpy, and which of them the sampler takes here.

    With the defaults it takes a few seconds.
    """
    from bandgap.benchmarks.products import ProductsBenchmark, run_benchmark

    result = run_benchmark(ProductsBenchmark(n=n, steps=steps, repeats=repeats))
    print_products(result)
    write_figures(json_file, result)


def print_products(result: dict[str, Any]) -> None:
    """Print both times, their ratio, and which side the sampler takes."""
    ms, settings = result["ms"], result["settings"]
    kernels = f" (OpenBLAS for {' and '.join(result['openblas'])})" if result["openblas"] else ""
    typer.echo(f"torch: {ms['torch']:.3f} ms a step; numpy{kernels}: {ms['numpy']:.3f} ms a step")
    typer.echo(f"numpy is {ms['torch'] / ms['numpy']:.2f} times as fast; the sampler takes {result['taken']} here.")
    typer.echo(
        f"{settings['n']} rows, {settings['inputs']} inputs, {settings['units'][0]} and {settings['units'][1]} units, "
        f"one thread; medians of {settings['repeats']} times of {settings['steps']} steps, in turns."
    )


def pages(
    structures: Annotated[int, typer.Option(help="Structures of the large data set.")] = 50_000,
    runs: Annotated[int, typer.Option(help="Finished runs.")] = 200,
    visits: Annotated[int, typer.Option(min=1, help="Visits of every page.")] = 50,
    json_file: options.JsonFile = None,
) -> None:
    """Script runs of every page in a workspace of many structures and runs: median, p95, memory, modules.

    The workspace is made in a temporary folder; two runs are really trained, the others are copies.
    """
    from bandgap.jobs.home import Home
    from bandgap.jobs.page_times import visit
    from bandgap.jobs.sample_workspace import build_workspace

    with tempfile.TemporaryDirectory(prefix="bandgap-pages-") as folder:
        with progress_bars() as progress:
            made = build_workspace(Home(Path(folder)), structures=structures, runs=runs, progress=progress)
        choices = {"ws": made.id, "data": made.dataset, "run": made.runs[0], "prediction": made.prediction}
        choices["runs"] = ",".join(made.runs[:COMPARED])
        result = visit(Home(Path(folder)), choices, visits=visits)
    result["settings"] = {"structures": structures, "runs": runs, "visits": visits}
    print_pages(result)
    write_figures(json_file, result)


def print_pages(result: dict[str, Any]) -> None:
    """Print a row for every page, the memory and what should not be loaded."""
    import numpy as np

    columns = ("page", "first (ms)", "median (ms)", "p95 (ms)", "p95 of the processor (ms)")
    rows = []
    for page, times in result["pages"].items():
        clock, processor = 1e3 * np.array(times["clock_s"]), 1e3 * np.array(times["processor_s"])
        row = (1e3 * times["first_s"], np.median(clock), np.quantile(clock, 0.95), np.quantile(processor, 0.95))
        rows.append((page, *(f"{value:.0f}" for value in row)))
    print_table(columns, rows)
    settings = result["settings"]
    typer.echo(
        f"{settings['structures']:,} structures, {settings['runs']} finished runs, {settings['visits']} visits of each "
        f"page. Peak memory of the process: {result['memory_MB']:.0f} MB. Heavy packages loaded: "
        f"{', '.join(result['heavy']) or 'none'}."
    )


# every command with an example of its options
for _command, _options in (
    (bench_networks.nptl, "--repeats 1 --splits 0 --json nptl.json"),
    (bench_networks.gpu, "--json gpu.json"),
    (accuracy, "--data DATA --out accuracy --n 100 --seeds 1"),
    (bench_crystals.crystals, "--data DATA --out crystals --set perovskites --n 100 --seeds 1"),
    (bench_oe62.oe62, "--data DATA --no-size --json oe62.json"),
    (bench_last_layer.last_layer, "--n 500 --no-accuracy --json last_layer.json"),
    (bench_posterior.posterior, "--repeats 3 --json posterior.json"),
    (bench_pbp.pbp, "--splits 1 --json pbp.json"),
    (bench_pbp.messages, "--draws 2000 --json messages.json"),
    (bench_pbp.uci, "--data DATA --set yacht --splits 5 --json uci.json"),
    (bench_sgmcmc.sgmcmc, "--data DATA --n 2000 --json sgmcmc.json"),
    (bench_vecchia.vecchia, "--data DATA --n 2000 --no-rivals --json vecchia.json"),
    (products, "--n 200 --json products.json"),
    (bench_scale.predict, "--model run --structures new.extxyz --repeats 1 --json predict.json"),
    (bench_scale.scale, "--model run --structures new.extxyz --n 1000 --n 4000 --json scale.json"),
    (pages, "--visits 20 --json pages.json"),
    (bench_serve.serve, "--model run --json serve.json"),
):
    _name = _command.__name__.replace("_", "-")
    bench.command(_name, cls=CheckedCommand, epilog=f"Example: bandgap bench {_name} {_options}")(_command)
