"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bandgap.datasets.units import Unit

if TYPE_CHECKING:
    from bandgap.networks.swag import SnapshotConfig
    from bandgap.networks.variational import VariationalConfig

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    typer.Option(help="Where to train and sample: auto takes a CUDA device if there is one."),
]

Structures = Annotated[
    list[Path],
    typer.Option(
        help="A structure file, a folder, a zip archive or a gzipped extXYZ file. May be repeated."
    ),
]
TestedRun = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Folder of a run that held out structures, or a zip of one."
    ),
]
SourceOfRun = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Source model of the run. Default: as in its command."),
]
StructuresOfRun = Annotated[
    list[Path] | None,
    typer.Option(
        help="Labelled structures of the run. May be repeated. Default: as in its command."
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="The gaps are in the extXYZ files, under this key, such as gap_eV or gap_Ha.",
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="The gaps are in this table: an id or file column, and a column such as gap_eV.",
    ),
]
LabelUnit = Annotated[
    Unit | None,
    typer.Option(help="Unit of the gaps, where the table's header or the key does not name it."),
]
GapColumn = Annotated[
    str | None, typer.Option("--column", help="The gap column of the table, where it has several.")
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        help="The column of the table that names the structures, where it is unusual.",
    ),
]
LevelOfTheory = Annotated[
    str,
    typer.Option(
        help="How the gaps were computed, such as PBE or GW. It travels with the "
        "model, the run and the CSV."
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, help="Seed of every random number; the same seed gives the same result."),
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="DIR", help="Folder to write; an older result of the same kind in it is replaced."
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, help="Processes that compute descriptors at the same time.")
]
Engine = Annotated[
    Literal["local", "dask"] | None,
    typer.Option(
        help="Where maps over items are computed: processes of this machine or a Dask cluster; "
        "default: BANDGAP_ENGINE, else local."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of the Dask scheduler, such as tcp://HOST:8786; default: BANDGAP_SCHEDULER.",
    ),
]
Source = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Folder that `bandgap train-source(s)` wrote; demo, inorganic and pbe: the "
        "shipped ones; none, for methods without transfer: a descriptor for the elements of the "
        "structures.",
    ),
]
OwnPreset = Annotated[
    str | None,
    typer.Option(
        "--preset", metavar="NAME", help="With --source none: another descriptor, by its name."
    ),
]
OwnSpecies = Annotated[
    str | None,
    typer.Option(
        "--species", metavar="SYMBOLS", help="With --source none: a descriptor of these elements."
    ),
]
Features = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Table of your own numbers for each structure (CSV, Parquet or npz, by id).",
    ),
]
FeaturesOfRun = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Own features of the labelled structures. Default: as in the command of the run.",
    ),
]
NewFeatures = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="For a run with own features: table of its columns for the new structures.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Descriptor with fixed settings, such as oe62-16. An unknown name lists all of them.",
    ),
]
Species = Annotated[
    str | None,
    typer.Option(
        metavar="SYMBOLS", help="The elements of a descriptor of your own: H C N O, or H,C,N,O."
    ),
]
Variational = Annotated[
    bool,
    typer.Option(
        "--variational", help="Also fit a variational posterior of the weights (minutes)."
    ),
]
Snapshots = Annotated[
    int | None,
    typer.Option(
        metavar="K", min=2, help="Also keep the last K snapshots of SGD on the source's data."
    ),
]
Interval = Annotated[
    Literal["prediction", "credible", "conformal"],
    typer.Option(
        help="prediction: where a new crystal's gap falls; credible: where the mean is, "
        "without scatter; conformal: as prediction, but by crystals that the run held back "
        "(transfer --conformal-share)."
    ),
]
ConformalShare = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Share of the N structures that is not learned from but held back for conformal "
        "intervals, such as 0.2; 95 % needs at least 19 structures.",
    ),
]
Level = Annotated[
    float, typer.Option(help="Probability that the interval states, between 0.01 and 0.99.")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures to this file.")
]


def species_list(text: str | None) -> list[str] | None:
    """Split the value of --species at commas and spaces; None stays None."""
    return text.replace(",", " ").split() if text else None


def variational_configs(
    is_requested: bool, *, max_steps: int | None = None
) -> tuple[VariationalConfig, ...]:
    """Return the settings to try for the variational fit, of at most `max_steps` each.

    Empty if not requested.
    """
    from bandgap.networks.variational import kl_weights_to_try

    return kl_weights_to_try(max_steps=max_steps) if is_requested else ()


def snapshot_config(n_snapshots: int | None) -> SnapshotConfig | None:
    """Return the settings for so many snapshots.

    Moments use at least the default number of snapshots.
    """
    from bandgap.networks.swag import SnapshotConfig

    if n_snapshots is None:
        return None
    return SnapshotConfig(count=max(n_snapshots, SnapshotConfig.count), rank=n_snapshots)


def parse_split(text: str) -> tuple[int, int]:
    """Parse the two numbers of a split.

    >>> parse_split("40000,10000")
    (40000, 10000)
    """
    words = text.replace(",", " ").split()
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        raise typer.BadParameter(
            f"--split {text!r}. Write two whole numbers from 1, such as 40000,10000."
        )
    return int(words[0]), int(words[1])
