"""`python -m benchmarks products`: the sampler's matrix products by torch and by numpy."""

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
        int, typer.Option(min=1, help="Timings of each library. Medians are compared.")
    ] = 15,
    json_file: options.JsonFile = None,
) -> None:
    """Time the matrix products of a step of the sampler by torch and by numpy.

    Also prints which of the two the sampler uses on this machine. The defaults take a few seconds.
    """
    from benchmarks.products import ProductsBenchmark, run_benchmark

    result = run_benchmark(ProductsBenchmark(n=n, steps=steps, repeats=repeats))
    print_products(result)
    write_figures(json_file, result)


def print_products(result: dict[str, Any]) -> None:
    """Print both times, their ratio, and which library the sampler uses."""
    ms = result["ms"]
    settings = result["settings"]
    kernels = f" (OpenBLAS for {' and '.join(result['openblas'])})" if result["openblas"] else ""
    typer.echo(f"torch: {ms['torch']:.3f} ms a step; numpy{kernels}: {ms['numpy']:.3f} ms a step")
    typer.echo(
        f"numpy is {ms['torch'] / ms['numpy']:.2f} times as fast; "
        f"the sampler uses {result['taken']} here."
    )
    typer.echo(
        f"{settings['n']} rows, {settings['inputs']} inputs, {settings['units'][0]} and "
        f"{settings['units'][1]} units, one thread; medians of {settings['repeats']} times of "
        f"{settings['steps']} steps, timed in turn."
    )
