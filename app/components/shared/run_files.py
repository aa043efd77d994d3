"""Reading the files of finished runs without torch: manifest, draws, predictions, held-out data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from safetensors.numpy import load_file

from app import session
from app.components.shared import stores
from bandgap.evaluation.calibrators import Calibrator, load_calibrator
from bandgap.evaluation.heldout import HeldOut, load_heldout, tested_ids
from bandgap.evaluation.near_copies import CAUSE
from bandgap.evaluation.run_tables import StoredRun
from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.rows import RunRow
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.store import DETAILS, EXTXYZ, QUANTILES, load_details, load_predictions
from bandgap.predictions.table import Predictions
from bandgap.storage.manifests import RECORD, SUMMARIES, posterior_of_method


@dataclass(frozen=True, eq=False)
class RunFiles:
    """The files of a run.

    Attributes
    ----------
    manifest
        The manifest of the run.
    draws
        Draws of c and kappa (chain, draw, layer), and of tau and sigma_eV (chain, draw).
    record
        Traces, energies, draws from the prior and changes of features by name; empty for methods
        without chains.
    """

    manifest: dict[str, Any]
    draws: dict[str, np.ndarray]
    record: dict[str, np.ndarray]

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Diagnostics of the fit."""
        return dict(self.manifest.get("diagnostics", {}))

    @property
    def n(self) -> int:
        """Number of labelled structures that the run learned from."""
        return len(self.manifest.get("split", {}).get("train", []))

    @property
    def n_test(self) -> int:
        """Number of structures that the error was measured on."""
        return len(tested_ids(self.manifest))

    @property
    def rhat(self) -> dict[str, float]:
        """R-hat by name of quantity; `fit` is the largest one of the fitted gaps, if stored."""
        rhat = dict(self.diagnostics.get("rhat", {}))
        if rhat and "rhat_fit_max" in self.figures:
            rhat["fit"] = self.figures["rhat_fit_max"]
        return rhat

    @property
    def ess(self) -> dict[str, float]:
        """Effective number of draws by name of quantity."""
        return dict(self.diagnostics.get("ess", {}))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that are shown with every result of the run, without that on near-copies."""
        return tuple(text for text in self.diagnostics.get("warnings", ()) if CAUSE not in text)

    @property
    def figures(self) -> dict[str, float]:
        """Figures of the fit by name, such as divergences, ebfmi_min and nll_alpha_10."""
        figures = self.diagnostics.items()
        return {name: value for name, value in figures if isinstance(value, (int, float))}

    @property
    def members(self) -> int:
        """Number of independent posteriors in the run, one for each network of its source."""
        stored = posterior_of_method(self.manifest)
        return 1 if self.pool else len(stored.get("members", [])) or 1

    @property
    def pool(self) -> dict[str, float]:
        """Weights of the methods by name, if the run combines several methods; else empty."""
        stored = posterior_of_method(self.manifest)
        return dict(zip(stored.get("methods", []), stored.get("weights", []), strict=False))

    def under(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays of the record whose name has a prefix, such as "trace.", without it."""
        return {
            name.removeprefix(prefix): v
            for name, v in self.record.items()
            if name.startswith(prefix)
        }


def read_run(run_id: str) -> RunFiles:
    """Return the files of a finished run.

    Raises ArtifactError when its folder is missing or damaged.
    """
    return _read_run(str(stores.home().run_folder(run_id)))


def read_predictions(run_id: str, prediction_id: str) -> Predictions:
    """Return stored predictions with all quantiles, calibrated if the run has a calibrator.

    Raises ArtifactError when the predictions are missing, or they or the calibrator are damaged.
    """
    calibrator = read_calibrator(run_id)
    path = stores.home().prediction_folder(run_id, prediction_id) / QUANTILES
    if calibrator is None:
        return _read_predictions(path)
    return _calibrated(path, repr(calibrator), calibrator)


def read_calibrator(run_id: str) -> Calibrator | None:
    """Return the calibrator of a run, None if it has none.

    Raises ArtifactError when it is damaged.
    """
    return load_calibrator(stores.home().run_folder(run_id))


def read_details(run_id: str, prediction_id: str) -> PredictionDetails:
    """Return the details that are stored with predictions.

    Raises ArtifactError when the file is absent or damaged.
    """
    return _read_details(stores.home().prediction_folder(run_id, prediction_id) / DETAILS)


def extxyz_of(run_id: str, prediction_id: str) -> Path | None:
    """Return the extXYZ file of predicted structures, None if there is none."""
    path = stores.home().prediction_folder(run_id, prediction_id) / EXTXYZ
    return path if path.is_file() else None


@st.cache_resource(max_entries=32, show_spinner=False)
def _read_run(folder: str) -> RunFiles:
    path = Path(folder)
    try:
        manifest = read_json(path / "manifest.json")
        if not isinstance(manifest, dict):
            raise TypeError(f"its manifest is a {type(manifest).__name__}")
        draws, record = (
            load_file(path / n) if (path / n).is_file() else {} for n in (SUMMARIES, RECORD)
        )
    except DAMAGE as error:
        raise ArtifactError(
            f"The files of run {path.name} cannot be read ({type(error).__name__}). Other runs are "
            "not touched; train this one again."
        ) from error
    return RunFiles(manifest, draws, record)


_cached = st.cache_resource(max_entries=4, show_spinner=False)
_read_predictions = _cached(load_predictions)
_read_details = _cached(load_details)


@_cached
def _calibrated(path: Path, calibrator: str, _calibrator: Calibrator) -> Predictions:
    """Return calibrated predictions; `calibrator` is the key of the cache for `_calibrator`."""
    return _calibrator.apply(_read_predictions(path))


def finished_runs() -> dict[str, RunRow]:
    """Return the finished runs of the workspace by id, newest first."""
    jobs = stores.run_jobs()
    runs = stores.library().runs(session.workspace())
    return {run.id: run for run in runs if run.job in jobs and jobs[run.job].state == "finished"}


def read_heldout_run(run: RunRow) -> HeldOut:
    """Return the held-out structures of a run with their known gaps.

    Raises ArtifactError when its folder is damaged, InputError when nothing can be measured on it.
    """
    return _read(str(stores.home().run_folder(run.id)), run.id)


def heldout_frame(heldout: HeldOut) -> pd.DataFrame:
    """Return one row per held-out structure: predictions at 95 %, and the known gap."""
    return heldout.predictions.to_frame().assign(gap_eV=heldout.gaps_eV)


def stored_run(run: RunRow, label: str, *, data: str) -> StoredRun:
    """Return a run for the tables and figures of the comparison; raises as `read_heldout_run`."""
    manifest = read_run(run.id).manifest
    device = run.request.device
    return StoredRun(
        run.id, label, manifest, read_heldout_run(run), data=data, source=run.source, device=device
    )


@st.cache_resource(max_entries=32, show_spinner=False)
def _read(folder: str, run_id: str) -> HeldOut:
    return load_heldout(Path(folder), read_run(run_id).manifest)
