"""What the page Result and the report of a run read: files, held-out structures and verdict."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.components.shared import stores
from app.components.shared.run_files import (
    RunFiles,
    read_calibrator,
    read_heldout_run,
    read_run,
)
from bandgap.evaluation.calibrators import Calibrator, CalibratorKind, variance_calibrated
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.near_copies import near_copies_sentence
from bandgap.evaluation.proposed_calibrator import proposed_kind
from bandgap.evaluation.result_verdict import ResultVerdict, result_verdict
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.rows import Dataset, RunRow


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run with its held-out structures and the verdict on it.

    `calibrator` is None where the run has none, or a damaged one (`calibrator_problem`).
    """

    run: RunRow
    files: RunFiles
    heldout: HeldOut
    calibrator: Calibrator | None
    calibrator_problem: ArtifactError | None
    verdict: ResultVerdict

    @property
    def proposed(self) -> CalibratorKind | None:
        """The calibrator that cross-fitting shows to help, None where the run has one."""
        return None if self.calibrator is not None else proposed_kind(self.heldout)

    @property
    def dataset(self) -> Dataset | None:
        """The data set of the run, None where it is no longer in its workspace."""
        return stores.datasets().get(self.run.dataset)

    @property
    def has_data(self) -> bool:
        """Whether the data set of the run is still in its workspace."""
        return self.dataset is not None

    @property
    def is_refit(self) -> bool:
        """Whether the run was refitted on all labels of another one."""
        return "refit" in self.files.manifest

    @property
    def has_one_formula(self) -> bool:
        """Whether all its structures have the same formula."""
        return bool(self.files.manifest.get("data", {}).get("n_formulas") == 1)

    @property
    def near_copies(self) -> str:
        """How many held-out structures nearly equal one that was learned from; else empty."""
        tested = self.files.manifest.get("tested", {})
        return near_copies_sentence(tested, one_formula=self.has_one_formula, remedy="").strip()


def read_result(run: RunRow) -> RunResult:
    """Return the result of a finished run.

    Raises ArtifactError when its files are damaged, InputError when it held out no structures.
    """
    files = read_run(run.id)
    heldout = read_heldout_run(run)
    problem = None
    try:
        calibrator = read_calibrator(run.id)
    except ArtifactError as error:
        calibrator = None
        problem = error
    folder = str(stores.home().run_folder(run.id))
    verdict = _verdict(folder, repr(calibrator), calibrator, heldout, files.manifest)
    return RunResult(run, files, heldout, calibrator, problem, verdict)


@st.cache_resource(max_entries=32, show_spinner=False)
def _verdict(
    folder: str,
    calibrator: str,
    _calibrator: Calibrator | None,
    _heldout: HeldOut,
    _manifest: dict[str, Any],
) -> ResultVerdict:
    """Return the verdict on a run; `folder` and `calibrator` are the key of the cache."""
    calibrated = variance_calibrated(_heldout, _calibrator)
    return result_verdict(_heldout, _manifest, calibrated=calibrated)
