"""Load the demo data that are shipped: two sources, two targets, sample CIF files and the source networks' folders.

Molecules and molecular crystals are CC0; inorganic crystals are of the Materials Project under CC BY 4.0. In a checkout
`data/making` makes them again; `data/README.md` says how they were made.
"""

import gzip
import hashlib
import importlib.resources
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from bandgap.datasets.table import LabelledSet
from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.structures import Limits, read_structures

DemoName = Literal["molecules", "crystals"]
InorganicName = Literal["source", "target"]

INORGANIC = "inorganic"  # folder of the second demo
HELD_OUT = "held out"  # in the column `part` of its tables


@dataclass(frozen=True, eq=False)
class DemoSet(LabelledSet):
    """A labelled set that is shipped, with its name and a table of its properties.

    The table has one row for each record, in the same order; its columns are described in data/README.md.
    """

    name: str = field(kw_only=True)
    table: pd.DataFrame = field(kw_only=True)


def data_folder() -> Path:
    """Return the folder of the demo data: inside an installed package, else the checkout's `data`.

    Raises ArtifactError where neither exists.
    """
    installed = Path(str(importlib.resources.files("bandgap"))) / "_data"
    checkout = Path(__file__).resolve().parents[2] / "data"
    for folder in (installed, checkout):
        if (folder / "manifest.json").is_file():
            return folder
    raise ArtifactError(
        f"The demo data are missing: neither {installed} nor {checkout} holds a manifest.json. Install bandgap again, "
        "or make them in a checkout with `python -m data.making molecular --out data`."
    )


def load_demo(name: DemoName) -> DemoSet:
    """Return the demo molecules (the source) or crystals (the target) with their gaps.

    Raises InputError on another name, ArtifactError on files that do not belong together.
    """
    if name not in get_args(DemoName):
        raise InputError(f"Demo data {name!r} do not exist. Accepted: {', '.join(get_args(DemoName))}.")
    return _load(data_folder(), name)


def load_inorganic(name: InorganicName, *, folder: Path | None = None) -> DemoSet:
    """Return crystals without carbon and hydrogen together (the source) or with both (the target), with PBE gaps.

    The column `part` of the table says which of them are held out. Raises as `load_demo`.
    """
    if name not in get_args(InorganicName):
        raise InputError(f"Demo data {name!r} do not exist. Accepted: {', '.join(get_args(InorganicName))}.")
    return _load(folder or inorganic_folder(), name)


def _load(folder: Path, name: str) -> DemoSet:
    manifest = read_demo_manifest(folder)
    file = f"{name}.extxyz"
    text = gzip.decompress(_bytes(folder / f"{file}.gz"))
    records = read_structures(text, file, limits=Limits())
    table = pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
    if [r.id for r in records] != table["id"].tolist():
        raise ArtifactError(
            f"{folder}: {file}.gz and {name}.csv do not list the same structures. Install bandgap again."
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


def demo_source_folder() -> Path:
    """Return the folder of the source network that was trained on the demo molecules."""
    return data_folder() / "source_model"


def inorganic_folder() -> Path:
    """Return the folder of the second demo: its sets, their manifest, and its source network."""
    return data_folder() / INORGANIC


def inorganic_source_folder() -> Path:
    """Return the folder of the source network that was trained on the inorganic crystals."""
    return inorganic_folder() / "source_model"


def unlabelled_cifs() -> list[Path]:
    """Return the sample CIF files, sorted: new crystals without gaps, the last four damaged on purpose."""
    return sorted((data_folder() / "new_crystals").glob("*.cif"))


def read_demo_manifest(folder: Path | None = None) -> dict[str, Any]:
    """Return the manifest of a demo: seed, checksums, and distributions of both sets; that of the first by default."""
    path = (folder or data_folder()) / "manifest.json"
    manifest: dict[str, Any] = parse_json(_bytes(path), what=str(path))
    return manifest


def verify_demo_data(folder: Path | None = None) -> int:
    """Compare every file of a demo with its checksum in the manifest and return how many there are.

    The second demo has a folder of its own (`inorganic_folder`). Raises ArtifactError on the first file that is missing
    or differs.
    """
    folder = folder or data_folder()
    manifest = read_demo_manifest(folder)
    files = manifest["files"] | manifest.get("source_model", {}).get("files", {})
    for name, expected in files.items():
        found = hashlib.sha256(_bytes(folder / name)).hexdigest()
        if found != expected["sha256"]:
            raise ArtifactError(
                f"{folder / name}: sha256 is {found[:12]}..., the manifest says {expected['sha256'][:12]}.... The "
                "file was changed or cut off; install bandgap again."
            )
    return len(files)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: a file of the demo data cannot be read ({error.strerror}). Install bandgap again."
        ) from error
