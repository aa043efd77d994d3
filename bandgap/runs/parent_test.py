"""The test of a parent run, which a refit on all labels reports as its own.

The refitted run has learned from every label, so nothing is left to test it on. Its error, held-out
predictions and calibrators are those of its parent: the run of the same request that did not learn
from the held-out structures.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandgap.foundation.errors import InputError
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.store import PREDICTIONS_CSV, QUANTILES
from bandgap.runs.requests import TransferRequest
from bandgap.runs.stored import conformal_of
from bandgap.storage.manifests import CALIBRATOR, read_manifest

# Fields of the request that a refit changes: nothing is held out or held back.
ALL_LABELS: Mapping[str, Any] = {
    "n": None,
    "n_test": 0,
    "test_ids": None,
    "conformal_share": 0.0,
    "by_formula": False,
    "test_known": False,
}
CALIBRATION_REASON = (
    "The calibration rests on errors of the parent run on structures that the parent did not learn "
    "from. This run has learned from them, so its own errors there would be too small. The "
    "intervals assume that the error in units of the predicted standard deviation is the same with "
    "more labels."
)


@dataclass(frozen=True, eq=False)
class ParentTest:
    """The manifest and the folder of a run that was tested on held-out structures."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def request(self) -> TransferRequest:
        """The request of the parent for all labels: nothing is held out or held back."""
        return TransferRequest(**self.manifest["request"]).changed(**ALL_LABELS)

    @property
    def tested(self) -> Mapping[str, float]:
        """What the errors of the parent rest on: structures of the test, and their near-copies."""
        tested: Mapping[str, float] = self.manifest.get("tested", {})
        return tested

    @property
    def conformal(self) -> ConformalScores | None:
        """The conformal scores of the parent, None if it held back no structures."""
        return conformal_of(self.manifest)

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of the manifest of the refitted run that are those of the parent."""
        manifest = self.manifest
        return {
            "test_gaps_eV": manifest["test_gaps_eV"],
            "conformal": manifest.get("conformal"),
            "refit": {
                "parent": self.folder.name,
                "parent_created": manifest["created"],
                "n": manifest["n"],
                "test": manifest["split"]["test"],
                "request": {name: manifest["request"][name] for name in ALL_LABELS},
                "calibration": CALIBRATION_REASON,
            },
        }

    def copy_files(self, folder: Path) -> None:
        """Copy held-out predictions and the calibrator, if there is one, to another folder."""
        for name in (PREDICTIONS_CSV, QUANTILES, CALIBRATOR):
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)


def read_parent(folder: Path) -> ParentTest:
    """Return the test of a run.

    Raises ArtifactError where the folder is not a readable run, and InputError for a run that has
    learned from all labels already.
    """
    manifest = read_manifest(folder, kind="run")
    if "refit" in manifest:
        raise InputError(
            f"{folder}: this run was refitted on all labels already. Give the run that it was "
            f"refitted from, {manifest['refit']['parent']}, or use this one."
        )
    if not manifest["split"]["test"]:
        raise InputError(
            f"{folder}: this run held out no structures, so it has no error that a refit could "
            "report. Use it as it is, or train again with some held out."
        )
    return ParentTest(folder, manifest)
