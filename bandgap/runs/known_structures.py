"""The structures that a run learned from or was tested on, also with other ids, atoms or cells.

A run stores the distances by which near-copies are found (`bandgap.structures.near_copies`). A
structure is the same one if no distance differs by more than the rounding of files.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.counting import LEARNED_FROM
from bandgap.sources.near_copies import StoredDistances, stored_distances
from bandgap.storage.manifests import KNOWN
from bandgap.structures.near_copies import NearCopies

N_NEAREST = 24  # atoms; zincblende and wurtzite first differ at the 17th


@dataclass(frozen=True, eq=False)
class KnownStructures:
    """Ids and distances of the structures of a run, of which the first `n_learned` taught it."""

    ids: tuple[str, ...]
    n_learned: int
    distances: StoredDistances

    def sentence(self, number: int) -> str:
        """Return that a prediction is no test, "" unless the run learned from this structure."""
        if not 0 <= number < self.n_learned:
            return ""
        return f"{LEARNED_FROM}, as {self.ids[number]}: its prediction is no test"


def save_known(folder: Path, structures: NearCopies, *, n_learned: int) -> None:
    """Write what tells the structures of a run into its folder, the first `n_learned` taught it."""
    ids = json.dumps([record.id for record in structures.records]).encode()
    arrays = {
        **StoredDistances.of(structures).arrays(),
        "ids": np.frombuffer(ids, dtype=np.uint8),
        "n_learned": np.array([n_learned]),
    }
    (folder / KNOWN).write_bytes(save(arrays))


def load_known(folder: Path) -> KnownStructures | None:
    """Return the structures of a run, None for one that was stored without them.

    Raises ArtifactError where the file is damaged.
    """
    path = folder / KNOWN
    if not path.is_file():
        return None
    try:
        arrays = load_file(path)
        distances = stored_distances(arrays, n_nearest=N_NEAREST)
        ids = tuple(map(str, json.loads(arrays["ids"].tobytes())))
        if not len(ids) == len(distances.formulas) == len(distances.ends):
            raise ValueError(f"{len(ids)} ids of {len(distances.ends)} structures")
        return KnownStructures(ids, int(arrays["n_learned"][0]), distances)
    except DAMAGE as error:
        raise ArtifactError(f"{path} cannot be read ({error}). Train the model again.") from error
