"""`python -m benchmarks oe62`: memory and time at the published size, and errors on molecules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.options import DataFolder

# Limits of peak memory.
READING_MB = 1500
TRAINING_MB = 3000


def oe62(
    data: DataFolder,
    size: Annotated[bool, typer.Option(help="Memory and time at the published size.")] = True,
    accuracy: Annotated[bool, typer.Option(help="Errors on the real molecules.")] = True,
    rows: Annotated[int, typer.Option(min=10, help="Molecules of the large file.")] = 61_489,
    split: Annotated[
        str,
        typer.Option(metavar="TRAIN,STOP", help="Its split. All other molecules are test rows."),
    ] = "40000,10000",
    max_epochs: Annotated[int, typer.Option(min=1, help="Maximum number of epochs on it.")] = 5,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    networks: Annotated[
        int, typer.Option(min=1, help="Number of source networks that are averaged.")
    ] = 4,
    presets: Annotated[
        list[str], typer.Option("--preset", help="Descriptors of the cross-validation.")
    ] = [],  # noqa: B006
    jobs: options.Jobs = 1,
    json_file: options.JsonFile = None,
) -> None:
    """Measure peak memory and time on a file of the size of OE62, and errors on real molecules.

    The file has 387 MB; it is read and a source is trained on it. Errors are compared with those
    of kernel ridge regression. Needs 3 GB of disk and about half an hour.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.oe62 import CrossValidation, cross_validate, run_size

    set_threads()
    result: dict[str, Any] = {}
    with progress_bars() as progress:
        if size:
            train, stop = map(int, split.split(","))
            result["size"] = run_size(
                data,
                rows=rows,
                split=(train, stop),
                max_epochs=max_epochs,
                jobs=jobs,
                progress=progress,
            )
        if accuracy:
            config = CrossValidation(folds, tuple(presets) or CrossValidation.presets, networks)
            rows_of_table = cross_validate(
                data, config, cache=descriptor_cache(), progress=progress
            )
            result["accuracy"] = list(rows_of_table)
    if "size" in result:
        print_size(result["size"])
    if "accuracy" in result:
        print_accuracy(result["accuracy"])
    write_figures(json_file, result)


def print_size(result: dict[str, Any]) -> None:
    """Print time and memory of reading and training, and the limits of memory."""
    cells = []
    for part, limit_MB in (("reading", READING_MB), ("training", TRAINING_MB)):
        figures = result[part]
        seconds = (f"{figures['clock_s']:.0f}", f"{figures['processor_s']:.0f}")
        cells.append((part, *seconds, f"{figures['peak_MB']:,.0f}", f"{limit_MB:,}"))
    print_table(("part", "wall clock (s)", "CPU (s)", "peak (MB)", "limit (MB)"), cells)
    typer.echo(f"{result['rows']:,} molecules in {result['bytes'] / 1e6:,.0f} MB of JSON.")
    for part in ("reading", "training"):
        for line in result[part]["said"]:
            typer.echo(f"{part}: {line}")


def print_accuracy(rows: list[dict[str, Any]]) -> None:
    """Print a row for each descriptor and model, with the range over folds."""
    cells = [
        (
            row["preset"],
            row["model"],
            f"{row['rmse_eV']:.3f}",
            f"{min(row['rmse_of_folds_eV']):.3f} to {max(row['rmse_of_folds_eV']):.3f}",
            f"{row['mae_eV']:.3f}",
        )
        for row in rows
    ]
    columns = ("descriptor", "model", "RMSE (eV)", "of the folds", "MAE (eV)")
    print_table(columns, cells, text_columns=("descriptor", "model"))
    if rows:
        folds = len(rows[0]["rmse_of_folds_eV"])
        typer.echo(
            f"{rows[0]['n']:,} molecules, each predicted by models trained without it "
            f"({folds} folds)."
        )
