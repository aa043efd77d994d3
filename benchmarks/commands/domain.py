"""`python -m benchmarks domain`: the applicability domain's p-values against distances."""

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
    "held-out flagged (%)",
    "unfamiliar flagged (%)",
    "AUROC of p",
    "AUROC of distance",
    "RMSE of flagged (eV)",
    "RMSE of the rest (eV)",
    "coverage (%)",
    "coverage without flagged (%)",
)


def domain(
    data: DataFolder,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="demo, nitrogen, organic or perovskites. May be repeated. Default: all of them.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    n: Annotated[int, typer.Option(min=30, help="Structures that are learned from.")] = 400,
    compared: Annotated[
        int, typer.Option(min=20, help="Held-out and unfamiliar structures, of each at most.")
    ] = 500,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 3,
    jobs: options.Jobs = 1,
    json_file: options.JsonFile = None,
) -> None:
    """Compare p-values of the domain with the distance to the nearest known structure.

    Unfamiliar structures have elements that the crystals that were learned from lack. Those of
    `nitrogen` are crystals of the demo with more nitrogen. On perovskites they are organic
    molecules, and fewer structures are learned from (250).
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.domain import DOMAIN_SETS, DomainBenchmark, run_domain

    set_threads()
    figures: dict[str, list[dict[str, Any]]] = {}
    with progress_bars() as progress:
        for name in sets or list(DOMAIN_SETS):
            n_of_set = min(n, 250) if name == "perovskites" else n
            figures[name] = run_domain(
                name,
                data,
                DomainBenchmark(n_of_set, compared, tuple(range(seeds))),
                cache=descriptor_cache(),
                n_jobs=jobs,
                progress=progress,
            )
    rows = [_row(name, entries) for name, entries in figures.items()]
    print_table(HEADER, rows)
    write_figures(json_file, figures)


def _row(name: str, entries: list[dict[str, Any]]) -> list[str]:
    """Return the medians over the splits of a set."""

    def median(values: list[float], *, decimals: int, factor: float = 1.0) -> str:
        return f"{factor * np.median(values):.{decimals}f}"

    aurocs = [
        median([entry["auroc"][score] for entry in entries], decimals=3)
        for score in ("p", "distance")
    ]
    return [
        f"{name} (n = {entries[0]['n']})",
        median([entry["flagged_share"] for entry in entries], decimals=1, factor=100),
        median([entry["flagged_share_unfamiliar"] for entry in entries], decimals=1, factor=100),
        *aurocs,
        median([entry["rmse_flagged_eV"] for entry in entries], decimals=3),
        median([entry["rmse_rest_eV"] for entry in entries], decimals=3),
        median([entry["coverage"] for entry in entries], decimals=1, factor=100),
        median([entry["coverage_not_withheld"] for entry in entries], decimals=1, factor=100),
    ]
