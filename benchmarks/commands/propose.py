"""`python -m benchmarks propose`: proposed molecules against the training set and mutations."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures
from bandgap.proposals.properties import PROPERTIES

HEADER = (
    "molecules",
    "gap in the window (%)",
    "expected (%)",
    "valid (%)",
    "unique (%)",
    "novel (%)",
    "inside the domain (%)",
    "RMSE of the listed (eV)",
    "geometry (eV)",
    "seconds",
)


def propose(
    window: Annotated[
        str, typer.Option(metavar="FROM:TO", help="Target window in eV.")
    ] = "3.0:3.5",
    n: Annotated[int, typer.Option(min=100, help="Demo molecules to learn from.")] = 5_000,
    labelled: Annotated[
        int, typer.Option(min=20, help="Molecules of demo crystals that the run learns from.")
    ] = 400,
    generated: Annotated[
        int, typer.Option(min=1, help="Molecules that each generator makes.")
    ] = 1_000,
    count: Annotated[
        int, typer.Option(min=1, help="Proposals of each list whose gap is computed.")
    ] = 200,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the network's training.")] = 1_500,
    generator: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the trained network. It is read if it exists, else written after the "
            "training.",
        ),
    ] = None,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Compare proposals for a window with draws from the training set, by GFN2-xTB gaps.

    Needs tblite (extra `xtb`); a list by SELFIES is added where the package selfies is
    installed. The first three shares are of the listed new molecules, the others of all generated
    ones.
    """
    from bandgap.descriptors.tight_binding import check_installed
    from bandgap.foundation.machine import set_threads
    from bandgap.predictions.window import Window
    from benchmarks.propose import ProposeBenchmark, names_of_lists, run_propose, verdict

    check_installed()
    set_threads()
    config = ProposeBenchmark(
        Window.parse(window),
        n_molecules=n,
        n_labelled=labelled,
        n_generated=generated,
        count=count,
        n_steps=steps,
        seed=seed,
    )
    with progress_bars() as progress:
        figures = run_propose(
            config, generator_folder=generator, cache=descriptor_cache(), progress=progress
        )
    drawn = figures["training set"]
    floor = figures["mutation"]["property_distances_of_halves"]
    rows = [
        ["draws from the training set", f"{100 * drawn['share']:.1f}", *[""] * (len(HEADER) - 2)],
        *(_row(name, figures[name]) for name in names_of_lists(figures)),
    ]
    print_table(HEADER, rows)
    print_table(
        ("distance of", *PROPERTIES),
        [
            _distances("halves of known molecules", floor),
            *(
                _distances(name, figures[name]["property_distances"])
                for name in names_of_lists(figures)
            ),
        ],
    )
    typer.echo(verdict(figures))
    write_figures(json_file, figures)


def _distances(name: str, distances: dict[str, float]) -> list[str]:
    return [name, *(f"{distances[key]:.3f}" for key in PROPERTIES)]


def _row(name: str, entry: dict[str, Any]) -> list[str]:
    counts = entry["counts"]
    shares = [counts[key] / counts["sampled"] for key in ("valid", "unique", "novel")]
    return [
        name,
        f"{100 * entry['share']:.1f}",
        f"{100 * entry['expected_share']:.1f}",
        *(f"{100 * share:.1f}" for share in shares),
        f"{100 * entry['inside_domain']:.1f}",
        f"{entry['rmse_eV']:.3f}",
        f"{entry['geometry_rms_eV']:.3f}",
        f"{entry['seconds']:.0f}",
    ]
