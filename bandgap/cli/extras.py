"""`bandgap source-extras`: adds to a source folder what the Bayesian transfers need beyond its point estimate."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import LabelChoice, descriptor_cache, load_gaps, load_structures
from bandgap.cli.report import print_run


def source_extras(
    source: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder that `bandgap train-source` wrote; it is changed.")
    ],
    structures: options.Structures,
    label: options.Label = None,
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    variational: options.Variational = False,
    snapshots: options.Snapshots = None,
    device: options.Device = "auto",
    jobs: options.Jobs = 1,
) -> None:
    """Add extras to a source model from the structures that it was trained on, its weights unchanged.

    Feature statistics and Fisher information are always added. Give the structures in the order of the training.
    """
    from bandgap.devices import set_threads
    from bandgap.manifests import read_manifest
    from bandgap.source_runs import add_extras_run

    set_threads()
    choice = LabelChoice(label, labels, unit=unit, column=column)
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        gaps, _ = load_gaps(records, choice)
        add_extras_run(
            source,
            records,
            gaps,
            variational=options.variational_configs(variational),
            snapshots=options.snapshot_config(snapshots),
            device=device,
            cache=descriptor_cache(),
            n_jobs=jobs,
            progress=progress,
        )
    print_run(source, read_manifest(source, kind="source"))
