"""`bandgap train-sources NAME=PATH ...`: networks with one output for each of several labelled sets of structures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import LabelChoice, descriptor_cache, descriptor_of, load_gaps, load_structures, say
from bandgap.cli.report import check_out, print_extras, print_figures, print_sources
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress

if TYPE_CHECKING:
    from bandgap.sources.training import LabelledSet

DISPLACEMENT = 0.04  # angstrom, as in `structures.displaced`, which loads too much for --help
VARIATIONAL_STEPS = 20_000  # of each fit of an output: twice those of the demo's source


def train_sources(
    sets: Annotated[
        list[str],
        typer.Argument(metavar="NAME=PATH...", help="Every labelled set: a name, and a file, folder or archive."),
    ],
    out: options.Out,
    label: Annotated[str, typer.Option(metavar="KEY", help="The key of the gaps in the extXYZ files of all sets.")],
    preset: options.Preset = None,
    species: options.Species = None,
    levels: Annotated[
        list[str], typer.Option("--level", metavar="NAME=TEXT", help="The level of theory of a set, such as qm9=B3LYP.")
    ] = [],  # noqa: B006 - typer copies it
    licences: Annotated[list[str], typer.Option("--licence", metavar="NAME=TEXT", help="The licence of a set.")] = [],  # noqa: B006 - typer copies it
    members: Annotated[
        int, typer.Option(min=1, help="Networks to train; a transfer mixes their posteriors with equal weight.")
    ] = 1,
    powers: Annotated[
        list[float],
        typer.Option(
            "--power",
            min=0.1,
            help="Power of the features that a network sees; of several, networks take them in turn. Default: 1, and "
            "1 and 2 with a descriptor of square roots.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    displacement: Annotated[
        float,
        typer.Option(
            metavar="ANGSTROM",
            help="Networks also see a copy of every structure whose coordinates are changed at random by so much "
            "(standard deviation), and lean less on the way geometries were made; 0 for none.",
        ),
    ] = DISPLACEMENT,
    hidden: Annotated[str, typer.Option(metavar="WIDTHS", help="Widths of the hidden layers.")] = "512,256",
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps of each network.")] = None,
    variational: options.Variational = False,
    snapshots: options.Snapshots = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    jobs: options.Jobs = 1,
) -> None:
    """Train source networks on several labelled sets at once, with an output for each set.

    Sets of different levels of theory can share the hidden layers that way. A transfer starts from the output that
    predicts the labelled crystals best, or from the one that --head names. --variational and --snapshots add to every
    output of every network what some methods need, as in train-source; `bandgap source-extras` does so for chosen ones.
    """
    from bandgap.foundation.machine import set_threads
    from bandgap.networks.joint_training import JointTrainingConfig
    from bandgap.sources.model import SourceConfig
    from bandgap.sources.sets import KIND
    from bandgap.sources.training import train_sources_run
    from bandgap.storage.manifests import read_manifest
    from bandgap.structures.displaced import check_displacement

    set_threads()
    check_out(out)
    check_displacement(displacement)
    files = named(sets, what="a set")
    own_levels, own_licences = named(levels, what="--level"), named(licences, what="--licence")
    unknown = sorted((set(own_levels) | set(own_licences)) - set(files))
    if unknown:
        raise ConfigError(f"There is no set {unknown[0]!r}. Given: {', '.join(files)}.")
    descriptor, widths = descriptor_of(preset, species), whole_numbers(hidden)
    with progress_bars() as progress:
        given = load_sets(files, label, levels=own_levels, licences=own_licences, progress=progress)
        training = JointTrainingConfig() if steps is None else JointTrainingConfig(steps=steps)
        folder = train_sources_run(
            given,
            descriptor=descriptor,
            config=SourceConfig(
                hidden=widths,
                variational=options.variational_configs(variational, max_steps=VARIATIONAL_STEPS),
                snapshots=options.snapshot_config(snapshots),
            ),
            training=training,
            members=members,
            powers=powers or None,
            displacement_angstrom=displacement,
            out=out,
            seed=seed,
            device=device,
            cache=descriptor_cache(),
            n_jobs=jobs,
            progress=progress,
        )
    manifest = read_manifest(folder, kind=KIND)
    print_figures(manifest["metrics"])
    print_sources(manifest["cards"])
    print_extras(folder)
    typer.echo(f"written to {folder}")
    say(f"Next: bandgap transfer --source {folder} --structures CRYSTALS --labels CSV --out RUN")


def load_sets(
    files: Mapping[str, str],
    label: str,
    *,
    levels: Mapping[str, str] | None = None,
    licences: Mapping[str, str] | None = None,
    progress: Progress,
) -> dict[str, LabelledSet]:
    """Read the structures and gaps of every set by name; raises InputError where there are none."""
    from bandgap.sources.training import LabelledSet

    found = {}
    for name, path in files.items():
        say(f"{name}:")
        records = load_structures([Path(path)], progress=progress)
        choice = LabelChoice(label, None, level_of_theory=(levels or {}).get(name, ""))
        gaps, level = load_gaps(records, choice)
        found[name] = LabelledSet(records, gaps, level, (licences or {}).get(name, ""))
    return found


def named(words: Sequence[str], *, what: str) -> dict[str, str]:
    """Turn words NAME=TEXT into a dict; raises ConfigError for another form and for a name that comes twice.

    >>> named(["qm9=B3LYP", "oe62=GW"], what="--level")
    {'qm9': 'B3LYP', 'oe62': 'GW'}
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not (name and equals and text):
            raise ConfigError(f"{what}: {word!r}. Write NAME=TEXT, such as qm9=qm9.extxyz.gz or qm9=B3LYP.")
        if name in found:
            raise ConfigError(f"{what}: {name!r} is given twice. Give each set a name of its own.")
        found[name] = text
    return found


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return the widths in a text; raises ConfigError for anything but whole numbers from 1.

    >>> whole_numbers("512,256"), whole_numbers("64 32")
    ((512, 256), (64, 32))
    """
    words = text.replace(",", " ").split()
    if not words or not all(word.isdigit() and int(word) for word in words):
        raise ConfigError(f"--hidden {text!r}. Write the widths of the hidden layers, such as 512,256.")
    return tuple(int(word) for word in words)
