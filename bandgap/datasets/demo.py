"""Load the demo data: two sources, two targets, sample CIF files, and folders of source networks.

Molecules and molecular crystals are CC0. Inorganic crystals are from the Materials Project under
CC BY 4.0. In a checkout, the scripts in `data/making` make the files; `data/README.md` describes
how.
"""

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bandgap.datasets.demo_files import data_folder as data_folder  # noqa: PLC0414 (re-export)
from bandgap.datasets.demo_files import demo_source_folder as demo_source_folder  # noqa: PLC0414
from bandgap.datasets.demo_files import inorganic_folder as inorganic_folder  # noqa: PLC0414
from bandgap.datasets.demo_files import (
    inorganic_source_folder as inorganic_source_folder,  # noqa: PLC0414
)
from bandgap.datasets.demo_files import unlabelled_cifs as unlabelled_cifs  # noqa: PLC0414
from bandgap.datasets.table import LabelledSet
from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.structures import Limits
from bandgap.structures.reading import read_structures

if TYPE_CHECKING:
    import pandas as pd

DemoName = Literal["molecules", "crystals"]
InorganicName = Literal["source", "target"]

HELD_OUT = "held out"  # value in the column `part` of its tables


@dataclass(frozen=True, eq=False)
class DemoSet(LabelledSet):
    """A labelled set of the demo data, with its name and a table of properties.

    The table has one row for every record, in the same order. `data/README.md` describes its
    columns.
    """

    name: str = field(kw_only=True)
    table: "pd.DataFrame" = field(kw_only=True)


def load_demo(name: DemoName) -> DemoSet:
    """Return the demo molecules (the source) or crystals (the target) with their gaps.

    Raises InputError for another name, and ArtifactError if files are missing or do not belong
    together.
    """
    if name not in get_args(DemoName):
        raise InputError(
            f"Demo data {name!r} do not exist. Accepted: {', '.join(get_args(DemoName))}."
        )
    return _load(data_folder(), name)


def load_inorganic(name: InorganicName, *, folder: Path | None = None) -> DemoSet:
    """Return crystals with their PBE gaps, from the inorganic demo.

    Crystals of the target contain both carbon and hydrogen, those of the source do not. The column
    `part` of the table tells which crystals are held out. Errors are those of `load_demo`.
    """
    if name not in get_args(InorganicName):
        raise InputError(
            f"Demo data {name!r} do not exist. Accepted: {', '.join(get_args(InorganicName))}."
        )
    return _load(folder or inorganic_folder(), name)


def _load(folder: Path, name: str) -> DemoSet:
    import pandas as pd  # imported here, as it takes a fifth of a second

    manifest = read_demo_manifest(folder)
    file = f"{name}.extxyz"
    text = gzip.decompress(_bytes(folder / f"{file}.gz"))
    records = read_structures(text, file, limits=Limits())
    table = pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
    if [r.id for r in records] != table["id"].tolist():
        raise ArtifactError(
            f"{folder}: {file}.gz and {name}.csv do not list the same structures. Install bandgap"
            " again."
        )
    gaps_eV = table["gap_eV"].to_numpy(dtype=np.float64)
    return DemoSet(
        records,
        gaps_eV,
        level_of_theory=manifest["sets"][name]["level_of_theory"],
        licence=manifest["licence"],
        name=name,
        table=table,
    )


def read_demo_manifest(folder: Path | None = None) -> dict[str, Any]:
    """Return the manifest of a demo: seed, checksums, and distributions of both sets.

    Without a folder, it is the manifest of the molecular demo.
    """
    path = (folder or data_folder()) / "manifest.json"
    manifest: dict[str, Any] = parse_json(_bytes(path), what=str(path))
    return manifest


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: a file of the demo data cannot be read ({error.strerror}). Install bandgap"
            " again."
        ) from error
