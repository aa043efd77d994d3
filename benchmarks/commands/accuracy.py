"""`python -m benchmarks accuracy`: methods on organic crystals with PBE gaps."""

from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.compare import print_comparison
from bandgap.cli.inputs import descriptor_cache
from benchmarks.commands.options import DataFolder, ResultsFolder

PEERS = ("kernel_ridge", "gaussian_process", "random_forest", "gradient_boosting")
LEVELS = tuple(
    f"{name}+levels" for name in ("feature_gp", "last_layer_ridge@1", "fine_tune@1", *PEERS)
)
SIZES = [100, 250, 500, 1000]
METHODS = ("feature_gp", "last_layer_ridge", "last_layer_ridge@1", "fine_tune@1", *PEERS, *LEVELS)


def accuracy(
    data: DataFolder,
    out: ResultsFolder,
    methods: Annotated[
        list[str],
        typer.Option(
            "--method",
            help="A method. NAME@K uses the first K networks, NAME+levels electron levels. "
            "May be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    sizes: Annotated[
        list[int], typer.Option("--n", min=1, help="Sizes of the training set.")
    ] = SIZES,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    members: Annotated[int, typer.Option(min=1, help="Source networks to train.")] = 4,
    jobs: options.Jobs = 1,
) -> None:
    """Compare methods on organic crystals with PBE gaps.

    Sources: QM9, conjugated molecules and OE62 (GW). All sizes and seeds take hours. An
    interrupted call resumes when it is repeated.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.accuracy import RESULTS, AccuracyBenchmark, run_accuracy

    set_threads()
    config = AccuracyBenchmark(
        tuple(methods) or METHODS,
        tuple(sizes),
        tuple(range(first_seed, first_seed + seeds)),
        members=members,
    )
    with progress_bars() as progress:
        fits = list(
            run_accuracy(
                data, out, config, cache=descriptor_cache(), n_jobs=jobs, progress=progress
            )
        )
    print_comparison([f for f in fits if f.n in config.sizes and f.seed in config.seeds])
    typer.echo(f"{out / RESULTS}: one line for each fit.")
