"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bandgap.datasets.units import Unit

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
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures to this file.")
]
