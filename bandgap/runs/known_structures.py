"""The structures that a run learned from or was tested on, also with other ids, atoms or cells.

A run stores the distances by which near-copies are found (`bandgap.structures.near_copies`). A
structure is the same one if no distance differs by more than the rounding of files.
"""

from dataclasses import dataclass
from pathlib import Path

from bandgap.predictions.counting import LEARNED_FROM
from bandgap.storage.manifests import KNOWN
from bandgap.storage.stored_fields import load_fields, save_fields
from bandgap.structures.near_copies import NearCopies, StoredDistances

N_NEAREST = 24  # atoms; zincblende and wurtzite first differ at the 17th


@dataclass(frozen=True, eq=False)
class KnownStructures:
    """Ids and distances of the structures of a run, of which the first `n_learned` taught it."""

    ids: tuple[str, ...]
    n_learned: int
    distances: StoredDistances

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.distances.formulas) == len(self.distances.ends):
            raise ValueError(f"{len(self.ids)} ids of {len(self.distances.ends)} structures")

    def sentence(self, number: int) -> str:
        """Return that a prediction is no test, "" unless the run learned from this structure."""
        if not 0 <= number < self.n_learned:
            return ""
        return f"{LEARNED_FROM}, as {self.ids[number]}: its prediction is no test"


def save_known(folder: Path, structures: NearCopies, *, n_learned: int) -> None:
    """Write what tells the structures of a run into its folder, the first `n_learned` taught it."""
    ids = tuple(record.id for record in structures.records)
    distances = StoredDistances.of(structures)
    save_fields(KnownStructures(ids, n_learned, distances), folder / KNOWN)


def load_known(folder: Path) -> KnownStructures:
    """Return the structures of a run; raises ArtifactError where the file is absent or damaged."""
    return load_fields(KnownStructures, folder / KNOWN)
