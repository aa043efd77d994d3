"""The served runs, loaded once, and their rows with the fields of the CSV as plain values."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from bandgap.datasets.gaps import baselines_from_info
from bandgap.descriptors import Descriptors
from bandgap.descriptors.config import BLOCKS
from bandgap.evaluation.calibrators import Calibrator, load_calibrator
from bandgap.foundation.config import fingerprint
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.service.limits import Refusal
from bandgap.jobs.service.requests import PredictionRequest, RequestOptions
from bandgap.predictions.interval_kinds import INTERVAL_KINDS, IntervalKind, check_kind
from bandgap.predictions.table import Predictions
from bandgap.predictions.window import Window
from bandgap.runs.prediction import (
    DrawnRecords,
    Floats,
    Request,
    as_requested,
    draw_requests,
    record_predictions,
)
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import DOMAIN, DRAWS, Run, load_run
from bandgap.storage.manifests import CALIBRATOR, KNOWN, MANIFEST
from bandgap.structures.records import StructureRecord

Row = dict[str, Any]
Rows = list[Row] | BandgapError | Refusal  # the rows of a request, or its error


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A stored run with its calibrator, and the name by which requests choose it."""

    name: str
    run: Run
    calibrator: Calibrator | None
    fingerprint: str  # of the stored files

    @classmethod
    def load(cls, folder: Path, *, name: str) -> Self:
        """Load a run; raises ArtifactError when it is missing, damaged or fails its self-check.

        Raises ConfigError for a run with own features.
        """
        run = load_run(folder)
        if run.descriptor.user_features is not None:
            BLOCKS["user_features"].check(run.descriptor.user_features)
        return cls(name, run, load_calibrator(folder), _fingerprint_of(folder))

    def facts(self) -> Row:
        """Return the entry of the model in GET /models."""
        manifest = self.run.manifest
        held_back = self.run.conformal is not None or (
            self.calibrator is not None and bool(self.calibrator.conformal)
        )
        return {
            "name": self.name,
            "method": manifest["method"],
            "title": manifest["title"],
            "level_of_theory": manifest["level_of_theory"],
            "n": manifest["n"],
            "created": manifest["created"],
            "fingerprint": self.fingerprint,
            "elements": list(self.run.descriptor.species),
            "baseline": self.run.baseline,
            "intervals": [kind for kind in INTERVAL_KINDS if kind != "conformal" or held_back],
            "notes": self.notes,
        }

    @property
    def notes(self) -> list[str]:
        """Warnings of the run, and the sentence of its calibrator."""
        calibration = [] if self.calibrator is None else [self.calibrator.sentence]
        return [*calibration, *self.run.manifest["warnings"]]

    def answer(
        self, requests: Sequence[PredictionRequest], described: Sequence[Descriptors]
    ) -> list[Rows]:
        """Return a row for every structure of every request, or the error of a request.

        Rows have the fields of the CSV; numbers of refused structures are None. The requests share
        the passes through the run's draws, and each gets the same digits as alone. An error is a
        Refusal or a BandgapError: the run does not give such intervals, or a baseline is missing.
        """
        answers: dict[int, Rows] = {}
        intervals: dict[int, PredictRequest] = {}
        drawn_requests: list[Request] = []
        for k, (request, descriptors) in enumerate(zip(requests, described, strict=True)):
            try:
                interval = _interval_request(request.options)
                baseline = self._baseline(request)
            except (BandgapError, Refusal) as error:
                answers[k] = error
                continue
            intervals[k] = interval
            drawn_requests.append((request.records, descriptors, baseline))
        draws = draw_requests(self.run, drawn_requests)
        for (k, interval), request_draws in zip(intervals.items(), draws, strict=True):
            try:
                answers[k] = self._rows(requests[k].records, request_draws, interval)
            except (BandgapError, Refusal) as error:
                answers[k] = error
        return [answers[k] for k in range(len(requests))]

    def _rows(
        self,
        records: Sequence[StructureRecord],
        drawn: DrawnRecords,
        interval: PredictRequest,
    ) -> list[Row]:
        window = interval.target
        level = interval.probability
        predictions = record_predictions(self.run, records, drawn, level=None if window else level)
        predictions = as_requested(predictions, self.calibrator, interval)
        return rows_of(predictions, level=level, kind=interval.interval, window=window)

    def _baseline(self, request: PredictionRequest) -> Floats | None:
        """Return the baseline (n,) in eV: of the request, else of the structures under its name."""
        name = self.run.baseline
        if not name:
            if any(value is not None for value in request.baselines_eV):
                raise InputError(
                    "A baseline is given, but this run was trained without one. Leave it out."
                )
            return None
        of_structures = np.full(len(request.records), math.nan)
        if any(name in record.info for record in request.records):
            of_structures = baselines_from_info(request.records, name)
        of_request = np.array(request.baselines_eV, dtype=np.float64)  # None becomes NaN
        baseline: Floats = np.where(np.isnan(of_request), of_structures, of_request)
        if np.isnan(baseline).all():
            raise Refusal(
                422,
                f"This model corrects {name!r} of every structure: give it in eV as baseline_eV "
                "of each structure of a JSON body, as baseline_eV=1.5,2.5,... in the address, or "
                f"under the key {name} of extXYZ frames.",
            )
        return baseline


def _interval_request(options: RequestOptions) -> PredictRequest:
    """Return the intervals of a request; raises ConfigError for a value that is not accepted."""
    values = {name: value for name, value in vars(options).items() if value not in ("", None)}
    values.pop("model", None)
    check_kind(options.interval or "prediction")
    if "level" in values:
        values["probability"] = values.pop("level")
    return PredictRequest(**values)


def _fingerprint_of(folder: Path) -> str:
    """Return a fingerprint of the stored files that decide the predictions of a run."""
    paths = [folder / name for name in (MANIFEST, DRAWS, DOMAIN, KNOWN, CALIBRATOR)]
    return fingerprint(
        [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.exists()]
    )


def load_models(folders: Sequence[Path]) -> dict[str, ServedModel]:
    """Load runs under the names of their folders; the second of two equal names gets a number."""
    models: dict[str, ServedModel] = {}
    for folder in folders:
        stem = folder.resolve().name
        name = stem
        number = 1
        while name in models:
            number += 1
            name = f"{stem}-{number}"
        models[name] = ServedModel.load(folder, name=name)
    return models


def rows_of(
    predictions: Predictions, *, level: float, kind: IntervalKind, window: Window | None = None
) -> list[Row]:
    """Return the table's rows as plain values, numbers with the six decimals of the CSV."""
    columns = {
        name: [_plain(v) for v in values]
        for name, values in predictions.to_columns(level, kind, window=window).items()
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value
    number = float(cast(float, value))
    return None if math.isnan(number) else round(number, 6) + 0.0  # + 0.0: never -0.0
