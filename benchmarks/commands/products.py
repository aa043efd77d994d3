"""`python -m benchmarks products`: matrix products of a step of the sampler, by torch and by numpy."""

from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.report import write_figures


def products(
    n: Annotated[int, typer.Option(min=1, help="Rows.")] = 500,
    steps: Annotated[
        int, typer.Option(min=1, help="Steps of the sampler that are timed together.")
    ] = 200,
    repeats: Annotated[
        int, typer.Option(min=1, help="Times of each side; medians are compared.")
    ] = 15,
    json_file: options.JsonFile = None,
) -> None:
    """Matrix products of a step of the sampler by torch and by numpy, and which of them the sampler takes here.

    With the defaults it takes a few seconds.
    """
    from benchmarks.products import ProductsBenchmark, run_benchmark

    result = run_benchmark(ProductsBenchmark(n=n, steps=steps, repeats=repeats))
    print_products(result)
    write_figures(json_file, result)


def print_products(result: dict[str, Any]) -> None:
    """Print both times, their ratio, and which side the sampler takes."""
    ms, settings = result["ms"], result["settings"]
    kernels = f" (OpenBLAS for {' and '.join(result['openblas'])})" if result["openblas"] else ""
    typer.echo(f"torch: {ms['torch']:.3f} ms a step; numpy{kernels}: {ms['numpy']:.3f} ms a step")
    typer.echo(
        f"numpy is {ms['torch'] / ms['numpy']:.2f} times as fast; the sampler takes {result['taken']} here."
    )
    typer.echo(
        f"{settings['n']} rows, {settings['inputs']} inputs, {settings['units'][0]} and {settings['units'][1]} units, "
        f"one thread; medians of {settings['repeats']} times of {settings['steps']} steps, in turns."
    )
