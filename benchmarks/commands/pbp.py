"""`python -m benchmarks uci` and `pbp`: probabilistic backpropagation."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.options import DataFolder

if TYPE_CHECKING:
    from benchmarks.uci import UciFit, UciStudy

FIGURES = {"RMSE": "rmse", "log density": "log_density"}


def uci(
    data: DataFolder,
    sets: Annotated[
        list[str], typer.Option("--set", help="A data set. May be repeated. Default: all eight.")
    ] = [],  # noqa: B006
    method: Annotated[
        Literal["pbp", "sspbp"], typer.Option(help="Messages without or with an atom at zero.")
    ] = "pbp",
    hidden: Annotated[
        str, typer.Option(help="Widths of the hidden layers, as 50 or 10-10.")
    ] = "50",
    biased: Annotated[
        bool, typer.Option("--biases/--no-biases", help="Whether units have biases.")
    ] = True,
    likelihood: Annotated[
        Literal["adf", "sep"],
        typer.Option(help="adf counts each row in every pass, as published; sep counts it once."),
    ] = "adf",
    passes: Annotated[int, typer.Option(min=1, help="Passes over the rows.")] = 40,
    batch_size: Annotated[
        int, typer.Option(min=1, max=10, help="Rows of a batch after the first pass.")
    ] = 1,
    splits: Annotated[int, typer.Option(min=1, max=20, help="Number of splits of each set.")] = 20,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare PBP or SSPBP with published results on the UCI regression sets.

    Prints errors, log density, coverage and time. The defaults take about ten minutes on one idle
    core; small sets take seconds.
    """
    from bandgap.foundation.errors import ConfigError
    from bandgap.foundation.machine import set_threads
    from benchmarks.uci import UciStudy, run_uci
    from benchmarks.uci_published import PAPER

    set_threads()
    if not all(part.isdigit() for part in hidden.split("-")):
        raise ConfigError(
            f"--hidden is {hidden!r}. Accepted: whole numbers joined by -, as 50 or 10-10."
        )
    widths = tuple(int(part) for part in hidden.split("-"))
    config = UciStudy(
        tuple(sets) or tuple(PAPER),
        method,
        widths,
        biased,
        likelihood,
        passes,
        batch_size,
        splits,
        seed,
    )
    with progress_bars() as progress:
        fits = list(run_uci(data, config, progress=progress))
    published = published_columns(config)
    print_uci(fits, published)
    biases = "with biases" if biased else "without biases"
    typer.echo(
        f"{method}, hidden {hidden}, {biases}, {likelihood}, {passes} passes. "
        "Means over splits +- standard error; seconds of one split, all passes, one thread."
    )
    if published:
        typer.echo(
            "2022: the thesis, means of five other splits of 80/20, without the set energy. "
            "2015: the paper, 20 splits of 90/10."
        )
    if likelihood == "adf" and passes > 1:
        typer.echo(
            f"Each row was counted {passes} times: the uncertainty of the weights is understated."
        )
    write_figures(json_file, {"settings": asdict(config), "fits": [asdict(fit) for fit in fits]})


def published_columns(study: "UciStudy") -> dict[str, dict[str, str]]:
    """Return published figures as columns, by title and set.

    The result is empty if nothing was published for the settings of the study.
    """
    from benchmarks.uci_published import PAPER, published

    columns: dict[str, dict[str, str]] = {}
    if (study.likelihood, study.passes) != ("adf", 40):
        return columns
    if study.method == "pbp" and study.hidden == (50,) and study.biased:
        columns = {
            f"{title} 2015": {name: f"{PAPER[name][k]:g}" for name in study.sets}
            for k, title in enumerate(FIGURES)
        }
    rows = {
        name: row
        for name in study.sets
        if (row := published(name, method=study.method, hidden=study.hidden, biased=study.biased))
        is not None
    }
    for title, key in FIGURES.items() if rows else ():
        columns[f"{title} 2022"] = {
            name: f"{value.mean:g} +- {value.error:g}"
            for name, row in rows.items()
            if (value := getattr(row, key))
        }
    return columns


def print_uci(fits: Sequence["UciFit"], published: Mapping[str, Mapping[str, str]]) -> None:
    """Print a row for each set: means, standard errors and published figures."""
    import numpy as np

    rows = []
    for name in dict.fromkeys(fit.name for fit in fits):
        fits_of_set = [fit for fit in fits if fit.name == name]
        cells = [name, str(len(fits_of_set))]
        for key in FIGURES.values():
            values = np.array([getattr(fit, key) for fit in fits_of_set])
            error = (
                f" +- {values.std(ddof=1) / np.sqrt(values.size):.2g}" if values.size > 1 else ""
            )
            cells.append(f"{values.mean():.4g}{error}")
        for key in ("coverage", "weights_share"):
            cells.append(f"{100 * np.mean([getattr(fit, key) for fit in fits_of_set]):.0f} %")
        cells.append(f"{np.median([fit.seconds for fit in fits_of_set]):.2f}")
        cells.extend(column.get(name, "") for column in published.values())
        rows.append(tuple(cells))
    columns = ("set", "splits", *FIGURES, "coverage of 90 %", "weights' share", "s", *published)
    print_table(columns, rows, width=180)


def pbp(
    n: Annotated[int, typer.Option(min=10, help="Crystals of the demo to train on.")] = 300,
    splits: Annotated[int, typer.Option(min=1, help="Splits; medians are shown.")] = 3,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare probabilistic backpropagation on the demo with other methods.

    It starts from the source and from random weights. The defaults take about a minute on one idle
    core.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.pbp_demo import PbpDemo, run_benchmark

    set_threads()
    with progress_bars() as progress:
        result = run_benchmark(
            PbpDemo(n=n, splits=splits, seed=seed), cache=descriptor_cache(), progress=progress
        )
    print_pbp(result)
    write_figures(json_file, result)


def print_pbp(result: dict[str, Any]) -> None:
    """Print a row for each method: medians over splits."""
    from benchmarks.pbp_demo import OURS, SCRATCH

    medians = {
        name: {
            key: median(split[key] for split in figures_of_splits) for key in figures_of_splits[0]
        }
        for name, figures_of_splits in result["sides"].items()
    }
    rows = [
        (
            name,
            f"{row['rmse_eV']:.3f}",
            f"{row['crps_eV']:.3f}",
            f"{100 * row['coverage']:.0f} %",
            f"{100 * row['weights_share']:.0f} %",
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
        )
        for name, row in medians.items()
    ]
    print_table(
        ("", "RMSE eV", "CRPS eV", "coverage of 90 %", "weights' share", "s", "CPU s"),
        rows,
        width=120,
    )
    ratio = medians[OURS]["rmse_eV"] / medians[SCRATCH]["rmse_eV"]
    typer.echo(
        f"{result['n']} crystals of the demo, {result['n_test']} for testing, "
        f"medians of {result['splits']} splits, one thread. After one pass the RMSE from the "
        f"source is {ratio:.2f} times that from a random start. A row takes "
        f"{1e3 * medians[OURS]['cpu_seconds'] / result['n']:.1f} ms for "
        f"{result['weights']:,} weights."
    )
