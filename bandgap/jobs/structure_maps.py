"""Maps of the structures of a data set: where they are stored, and the points to draw."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import fingerprint
from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.tensor_files import mapped_tensors
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.structure_filter import StructureFilter

KIND = "structure_map"
# Of the map on the page Data, which needs no run: few features, for all elements.
DATASET_DESCRIPTOR: Final[Mapping[str, bool]] = {"composition": True, "neighbours": True}


@dataclass(frozen=True, eq=False)
class MapRows:
    """The structures of a data set that are not refused, in the order of their rows.

    `rows` are their rows in the data set and `gaps_eV` their known gaps, NaN where there is none;
    all have the length n.
    """

    rows: NDArray[np.int64]
    ids: tuple[str, ...]
    formulas: tuple[str, ...]
    gaps_eV: NDArray[np.float64]


def map_path(home: Home, dataset_id: str, descriptor: Mapping[str, Any]) -> Path:
    """Return the path of the map of a data set by the descriptor of a run's manifest."""
    name = f"map-{fingerprint(dict(descriptor))[:16]}.safetensors"
    return home.dataset_folder(dataset_id) / name


def map_rows(
    library: Library, dataset_id: str, conditions: StructureFilter = StructureFilter()
) -> MapRows:
    """Return the structures of a data set that a map can show, and that meet the conditions."""
    condition, values = conditions.condition(dataset_id)
    stored_rows = library.database.rows(
        "SELECT row, id, formula, gap_eV FROM structure"
        f" WHERE {condition} AND status != 'refused' ORDER BY row",
        *values,
    )
    gaps = [np.nan if row["gap_eV"] is None else row["gap_eV"] for row in stored_rows]
    return MapRows(
        np.array([row["row"] for row in stored_rows], dtype=np.int64),
        tuple(str(row["id"]) for row in stored_rows),
        tuple(str(row["formula"]) for row in stored_rows),
        np.array(gaps, dtype=np.float64),
    )


def read_map(
    path: Path,
) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[float, float]] | None:
    """Return coordinates (n, 2), neighbours (n, k) and shares of the variance of a stored map.

    None where there is no file. Raises ArtifactError where it is damaged.
    """
    if not path.is_file():
        return None
    try:
        metadata, tensors = mapped_tensors(path)
        first, second = json.loads(metadata["shares"])
        coordinates = np.asarray(tensors["coordinates"], dtype=np.float64)
        neighbours = np.asarray(tensors["neighbours"], dtype=np.int64)
        if coordinates.shape != (len(neighbours), 2):
            raise ValueError(f"coordinates of shape {coordinates.shape}")
    except DAMAGE as error:
        raise ArtifactError(
            f"{path}: not readable as a map of structures ({error}). Compute it again; nothing "
            "else is touched."
        ) from error
    return coordinates, neighbours, (float(first), float(second))
