"""`bandgap source-extras`: adds to a source folder what the Bayesian transfers need beyond its point estimate."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import LabelChoice, descriptor_cache, load_gaps, load_structures
from bandgap.cli.joint import VARIATIONAL_STEPS, load_sets, named
from bandgap.cli.report import print_extras, print_run
from bandgap.foundation.errors import ConfigError


def source_extras(
    source: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder that `bandgap train-source(s)` wrote; it is changed."),
    ],
    sets: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=PATH...]", help="Of a source of several sets: its sets, as in train-sources."),
    ] = [],  # noqa: B006 - typer copies it
    structures: options.Structures = [],  # noqa: B006 - typer copies it
    label: options.Label = None,
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    heads: Annotated[
        list[str],
        typer.Option(
            "--head", metavar="NAME", help="Of the sets given, those to add to; default: all. May be repeated."
        ),
    ] = [],  # noqa: B006 - typer copies it
    variational: options.Variational = False,
    snapshots: options.Snapshots = None,
    device: options.Device = "auto",
    jobs: options.Jobs = 1,
) -> None:
    """Add extras to a source model from the structures that it was trained on, its weights unchanged.

    Feature statistics and Fisher information are always added. Give the structures in the order of the training; of a
    source of several sets name them as train-sources did: every network gets the extras of these outputs, one after
    the other, the variational posterior by at most 20,000 steps a fit.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.sources.sets import open_sources
    from bandgap.sources.training import add_extras_run, add_head_extras_run
    from bandgap.storage.manifests import read_manifest

    set_threads()
    kept = options.snapshot_config(snapshots)
    if open_sources(source).sizes:
        _check_sets(sets, label, structures=structures, labels=labels)
        files = _chosen_sets(sets, heads)
        tried = options.variational_configs(variational, max_steps=VARIATIONAL_STEPS)
        with progress_bars() as progress:
            add_head_extras_run(
                source,
                load_sets(files, str(label), progress=progress),
                variational=tried,
                snapshots=kept,
                device=device,
                cache=descriptor_cache(),
                n_jobs=jobs,
                progress=progress,
            )
        print_extras(source)
        typer.echo(f"written to {source}")
        return
    if sets or heads or not structures:
        raise typer.BadParameter(
            "this is a source of one set: give its structures with --structures PATH, without NAME=PATH and --head."
        )
    choice = LabelChoice(label, labels, unit=unit, column=column)
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        gaps, _ = load_gaps(records, choice)
        add_extras_run(
            source,
            records,
            gaps,
            variational=options.variational_configs(variational),
            snapshots=kept,
            device=device,
            cache=descriptor_cache(),
            n_jobs=jobs,
            progress=progress,
        )
    print_run(source, read_manifest(source, kind="source"))


def _check_sets(sets: list[str], label: str | None, *, structures: list[Path], labels: Path | None) -> None:
    if not sets or label is None or structures or labels is not None:
        raise typer.BadParameter(
            "this is a source of several sets: give them as NAME=PATH, as in train-sources, and their gaps by --label "
            "KEY, without --structures and --labels."
        )


def _chosen_sets(sets: list[str], heads: list[str]) -> dict[str, str]:
    """Return the path of every set that extras are added to; raises ConfigError for a head without a set."""
    files = named(sets, what="a set")
    unknown = [head for head in heads if head not in files]
    if unknown:
        raise ConfigError(
            f"--head {unknown[0]!r}: there is no such set among those given: {', '.join(files)}. Give it as "
            f"{unknown[0]}=PATH."
        )
    return {name: path for name, path in files.items() if name in heads or not heads}
