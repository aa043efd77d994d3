"""What the page Result and the report of a run read: files, held-out structures and verdict."""

from dataclasses import dataclass

from app.components.shared.run_files import (
    RunFiles,
    read_calibrator,
    read_heldout_run,
    read_run,
)
from bandgap.evaluation.calibrators import Calibrator, measured_part
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.proposed_calibrator import proposed_kind
from bandgap.evaluation.result_verdict import ResultVerdict, result_verdict
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.rows import RunRow


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run with its held-out structures and the verdict on it.

    `calibrator` is None where the run has none, or a damaged one (`calibrator_problem`).
    """

    run: RunRow
    files: RunFiles
    heldout: HeldOut
    calibrator: Calibrator | None
    calibrator_problem: str
    verdict: ResultVerdict

    @property
    def can_calibrate(self) -> bool:
        """Whether the run has no calibrator yet, and cross-fitting shows that one would help."""
        return self.calibrator is None and proposed_kind(self.heldout) is not None


def read_result(run: RunRow) -> RunResult:
    """Return the result of a finished run.

    Raises ArtifactError when its files are damaged, InputError when it held out no structures.
    """
    files = read_run(run.id)
    heldout = read_heldout_run(run)
    problem = ""
    try:
        calibrator = read_calibrator(run.id)
    except ArtifactError as error:
        calibrator = None
        problem = str(error)
    calibrated = None
    if calibrator is not None and calibrator.kind == "variance":
        part = measured_part(heldout, calibrator)
        calibrated = HeldOut(calibrator.apply(part.predictions), part.gaps_eV)
    verdict = result_verdict(heldout, files.manifest, calibrated=calibrated)
    return RunResult(run, files, heldout, calibrator, problem, verdict)
