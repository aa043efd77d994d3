"""`python -m benchmarks early-stopping`: settings of the training of a source network."""

from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures


def early_stopping(
    n: Annotated[int, typer.Option(min=10, help="Molecules of the demo to learn from.")] = 1500,
    splits: Annotated[int, typer.Option(min=1, help="Random splits; means are shown.")] = 20,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare the early stopping of a source network with that of the thesis.

    The defaults take about five minutes on one idle core.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.early_stopping import EarlyStopping, run_benchmark

    set_threads()
    config = EarlyStopping(n=n, splits=splits, seed=seed)
    with progress_bars() as progress:
        result = run_benchmark(config, cache=descriptor_cache(), progress=progress)
    print_sides(result)
    write_figures(json_file, result)


def print_sides(result: dict[str, Any]) -> None:
    """Print a row for each setting: means over splits, and the difference from this package."""
    from statistics import fmean

    from benchmarks.early_stopping import paired_difference

    rows = []
    for name, splits in result["sides"].items():
        mean = {key: fmean(split[key] for split in splits) for key in splits[0]}
        difference, error = paired_difference(result["sides"], name)
        rows.append(
            (
                name,
                f"{mean['rmse_eV']:.4f}",
                f"{difference:+.4f} +- {error:.4f}",
                f"{mean['epochs']:.0f}",
                f"{mean['cpu_seconds']:.1f}",
            )
        )
    print_table(("", "RMSE eV", "difference", "epochs", "CPU s"), rows, width=100)
    settings = result["settings"]
    typer.echo(
        f"{settings['n']} molecules of the demo, {settings['n_test']} for testing, means of "
        f"{settings['splits']} splits +- standard error."
    )
