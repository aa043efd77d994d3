"""`python -m benchmarks unseen-elements`: structures with an element that the labels lack."""

from typing import Annotated, Any

import numpy as np
import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from benchmarks.commands.options import DataFolder

HEADER = (
    "set",
    "method",
    "fits",
    "RMSE with, without (eV)",
    "coverage of 95 % (%)",
    "errors in standard deviations",
    "factor",
)


def unseen_elements(
    data: DataFolder,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="perovskites, inorganic or organic. May be repeated. Default: organic and "
            "perovskites.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    methods: Annotated[list[str], typer.Option("--method", help="A method. May be repeated.")] = [],  # noqa: B006
    n: Annotated[int, typer.Option(min=20, help="Structures that are learned from.")] = 150,
    n_test: Annotated[
        int, typer.Option(min=2, help="Predicted structures with the element, and without.")
    ] = 100,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 2,
    jobs: options.Jobs = 1,
    json_file: options.JsonFile = None,
) -> None:
    """Compare structures with an element that the labelled ones lack with others.

    The first number of each pair is of structures with the element. The factor is the first size
    of errors over the second.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.unseen_elements import METHODS, UnseenElementsBenchmark, run_unseen_elements

    set_threads()
    config = UnseenElementsBenchmark(tuple(methods) or METHODS, n, n_test, tuple(range(seeds)))
    figures: list[dict[str, Any]] = []
    with progress_bars() as progress:
        for name in sets or ["organic", "perovskites"]:
            figures += [
                {"set": name, **entry}
                for entry in run_unseen_elements(
                    name, data, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress
                )
            ]
    keys = dict.fromkeys((entry["set"], entry["method"]) for entry in figures)
    rows = [
        _row(name, method, [e for e in figures if (e["set"], e["method"]) == (name, method)])
        for name, method in keys
    ]
    print_table(HEADER, rows)
    write_figures(json_file, {"fits": figures})


def _row(name: str, method: str, entries: list[dict[str, Any]]) -> list[str]:
    """Return the means over elements and splits of a method on a set."""

    def pair(figure: str, *, decimals: int, factor: float = 1.0) -> str:
        means = [
            factor * float(np.mean([entry[kind][figure] for entry in entries]))
            for kind in ("unseen", "familiar")
        ]
        return ", ".join(f"{mean:.{decimals}f}" for mean in means)

    sizes = [
        float(np.sqrt(np.mean([entry[kind]["scale"] ** 2 for entry in entries])))
        for kind in ("unseen", "familiar")
    ]
    return [
        name,
        method,
        str(len(entries)),
        pair("rmse_eV", decimals=3),
        pair("coverage_95", decimals=1, factor=100),
        ", ".join(f"{size:.2f}" for size in sizes),
        f"{sizes[0] / sizes[1]:.2f}",
    ]
