"""`bandgap train-sources` and `bandgap source-extras`: source models of several sets, extras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    check_inputs,
    descriptor_cache,
    load_gaps,
    load_labelled,
    load_structures,
    print_note,
)
from bandgap.cli.report import (
    print_extras,
    print_figures,
    print_run,
    print_sources,
    print_warnings,
)
from bandgap.cli.request_options import parsed_request, takes_engine, takes_labels, takes_request
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress
from bandgap.runs.requests import SourceRequest

if TYPE_CHECKING:
    from bandgap.datasets.table import LabelledSet

DISPLACEMENT = 0.04  # angstrom, as in `structures.displaced`, whose import is too slow for --help
VARIATIONAL_STEPS = 20_000  # of each fit of an output: twice as many as for the source of the demo


@takes_request(
    SourceRequest,
    only=("preset", "species", "seed", "variational", "snapshots", "device", "n_jobs"),
)
@takes_engine
def train_sources(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=PATH...",
            help="Every labelled set: a name, and a file, folder or archive.",
        ),
    ],
    out: options.Out,
    label: Annotated[
        str,
        typer.Option(metavar="KEY", help="The key of the gaps in the extXYZ files of all sets."),
    ],
    levels: Annotated[
        list[str],
        typer.Option(
            "--level", metavar="NAME=TEXT", help="The level of theory of a set, such as qm9=B3LYP."
        ),
    ] = [],  # noqa: B006 - typer copies it
    licences: Annotated[
        list[str], typer.Option("--licence", metavar="NAME=TEXT", help="The licence of a set.")
    ] = [],  # noqa: B006 - typer copies it
    members: Annotated[
        int,
        typer.Option(
            min=1, help="Networks to train; a transfer mixes their posteriors with equal weight."
        ),
    ] = 1,
    powers: Annotated[
        list[float],
        typer.Option(
            "--power",
            min=0.1,
            help="Power of the features of a network; may be repeated, networks then use the "
            "powers in turn. Default: 1, and 1 and 2 with a descriptor of square roots.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    displacement: Annotated[
        float,
        typer.Option(
            metavar="ANGSTROM",
            help="Also train on a copy of every structure with coordinates displaced at "
            "random by this standard deviation, so that networks depend less on how "
            "geometries were relaxed; 0 for none.",
        ),
    ] = DISPLACEMENT,
    hidden: Annotated[
        str, typer.Option(metavar="WIDTHS", help="Widths of the hidden layers.")
    ] = "512,256",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps of each network.")
    ] = None,
    *,
    request: SourceRequest,
) -> None:
    """Train source networks on several labelled sets together, with an output for each set.

    Sets of different levels of theory then share the hidden layers. A transfer starts from the
    output that predicts the labelled crystals best, or from the output of --head. --variational and
    --snapshots add extras that some methods need to every output of every network, as in
    train-source; `bandgap source-extras` adds them to selected outputs.
    """
    from bandgap.descriptors import config_for
    from bandgap.foundation.machine import set_threads
    from bandgap.networks.joint_training import JointTrainingConfig
    from bandgap.runs.source import source_config
    from bandgap.sources.sets import KIND
    from bandgap.sources.training import train_sources_run
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder
    from bandgap.structures.displaced import check_displacement

    set_threads()
    check_result_folder(out, kind=KIND)
    check_displacement(displacement)
    files = parsed_names(sets, what="a set")
    levels_by_set = parsed_names(levels, what="--level")
    licences_by_set = parsed_names(licences, what="--licence")
    unknown = sorted((set(levels_by_set) | set(licences_by_set)) - set(files))
    if unknown:
        raise ConfigError(f"There is no set {unknown[0]!r}. Given: {', '.join(files)}.")
    descriptor = config_for(preset=request.preset, species=request.species)
    widths = parsed_request(SourceRequest, {"hidden": hidden}).hidden
    request = request.changed(hidden=widths, variational_steps=VARIATIONAL_STEPS)
    with progress_bars() as progress:
        data = load_sets(
            files, label, levels=levels_by_set, licences=licences_by_set, progress=progress
        )
        training = JointTrainingConfig() if steps is None else JointTrainingConfig(steps=steps)
        folder = train_sources_run(
            data,
            descriptor=descriptor,
            config=source_config(request),
            training=training,
            members=members,
            powers=powers or None,
            displacement_angstrom=displacement,
            out=out,
            seed=request.seed,
            device=request.device,
            cache=descriptor_cache(),
            n_jobs=request.n_jobs,
            progress=progress,
        )
    manifest = read_manifest(folder, kind=KIND)
    print_figures(manifest["metrics"])
    print_sources(manifest["cards"])
    print_extras(folder)
    print_warnings(manifest)
    typer.echo(f"written to {folder}")
    print_note(
        f"Next: bandgap transfer --source {folder} --structures CRYSTALS --labels CSV --out RUN"
    )


@takes_request(SourceRequest, only=("variational", "snapshots", "device", "n_jobs"))
@takes_engine
@takes_labels()
def source_extras(
    source: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder that `bandgap train-source(s)` wrote; it is changed."
        ),
    ],
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=PATH...]",
            help="Of a source of several sets: its sets, as in train-sources.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    structures: options.Structures = [],  # noqa: B006 - typer copies it
    *,
    labels: LabelChoice,
    heads: Annotated[
        list[str],
        typer.Option(
            "--head",
            metavar="NAME",
            help="Of the sets given, those to add to; default: all. May be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    request: SourceRequest,
) -> None:
    """Add extras to a source model from its training structures, without changing its weights.

    Feature statistics and Fisher information are always added. Give the structures in the order of
    the training. For a source of several sets, give the sets as in train-sources: every network
    gets the extras of these outputs, one after the other. Each variational fit has at most 20,000
    steps.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.source import source_config
    from bandgap.sources.added_extras import add_extras_run
    from bandgap.sources.sets import open_sources
    from bandgap.storage.manifests import read_manifest

    set_threads()
    has_several = bool(open_sources(source).sizes)
    if has_several:
        _check_sets(sets, labels, structures=structures)
        request = request.changed(variational_steps=VARIATIONAL_STEPS)
    elif sets or heads or not structures:
        raise typer.BadParameter(
            "this is a source of one set: give its structures with --structures PATH, "
            "without NAME=PATH and --head."
        )
    else:
        check_inputs(structures, labels)
    files = _chosen_sets(sets, heads)
    with progress_bars() as progress:
        if has_several:
            data = load_sets(files, str(labels.key), progress=progress)
        else:
            data = {"": load_labelled(structures, labels, progress=progress)}
        add_extras_run(
            source,
            data,
            extras=source_config(request),
            device=request.device,
            cache=descriptor_cache(),
            n_jobs=request.n_jobs,
            progress=progress,
        )
    if has_several:
        print_extras(source)
        typer.echo(f"written to {source}")
    else:
        print_run(source, read_manifest(source, kind="source"))


def load_sets(
    files: Mapping[str, str],
    label: str,
    *,
    levels: Mapping[str, str] | None = None,
    licences: Mapping[str, str] | None = None,
    progress: Progress,
) -> dict[str, LabelledSet]:
    """Read structures and gaps of every set, by name; raises InputError for a set without gaps."""
    from bandgap.datasets.table import LabelledSet

    data = {}
    for name, path in files.items():
        print_note(f"{name}:")
        records = load_structures([Path(path)], progress=progress)
        choice = LabelChoice(label, None, level_of_theory=(levels or {}).get(name, ""))
        gaps, level = load_gaps(records, choice)
        data[name] = LabelledSet(records, gaps, level, (licences or {}).get(name, ""))
    return data


def parsed_names(words: Sequence[str], *, what: str) -> dict[str, str]:
    """Parse words NAME=TEXT into a dict; raises ConfigError for another form or a repeated name.

    >>> parsed_names(["qm9=B3LYP", "oe62=GW"], what="--level")
    {'qm9': 'B3LYP', 'oe62': 'GW'}
    """
    text_by_name: dict[str, str] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not (name and equals and text):
            raise ConfigError(
                f"{what}: {word!r}. Write NAME=TEXT, such as qm9=qm9.extxyz.gz or qm9=B3LYP."
            )
        if name in text_by_name:
            raise ConfigError(f"{what}: {name!r} is given twice. Give each set a name of its own.")
        text_by_name[name] = text
    return text_by_name


def _check_sets(sets: list[str], labels: LabelChoice, *, structures: list[Path]) -> None:
    if not sets or labels.key is None or structures or labels.table is not None:
        raise typer.BadParameter(
            "this is a source of several sets: give them as NAME=PATH, as in train-sources, and "
            "their gaps by --label KEY, without --structures and --labels."
        )


def _chosen_sets(sets: list[str], heads: list[str]) -> dict[str, str]:
    """Return the path of every set to which extras are added.

    Raises ConfigError for a head without a set.
    """
    files = parsed_names(sets, what="a set")
    unknown = [head for head in heads if head not in files]
    if unknown:
        raise ConfigError(
            f"--head {unknown[0]!r}: there is no such set among those given: {', '.join(files)}. "
            f"Give it as {unknown[0]}=PATH."
        )
    return {name: path for name, path in files.items() if name in heads or not heads}
