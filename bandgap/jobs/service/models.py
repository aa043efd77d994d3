"""The runs that a service answers from, loaded once, and the rows that it answers with: the CSV's, as plain values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from bandgap.datasets.gaps import baselines_from_info
from bandgap.descriptors import Descriptors
from bandgap.evaluation.calibrators import Calibrator, load_calibrator
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.service.limits import Refusal
from bandgap.jobs.service.questions import Choice, Question
from bandgap.predictions.interval_kinds import INTERVAL_KINDS, IntervalKind, check_kind, check_level
from bandgap.predictions.table import Predictions
from bandgap.runs.prediction import DrawnRecords, Floats, Request, draw_requests, record_predictions
from bandgap.runs.stored import Run, load_run
from bandgap.structures.records import StructureRecord

LEVEL, INTERVAL = 0.95, "prediction"
Row = dict[str, Any]
Rows = list[Row] | BandgapError | Refusal  # the answer to a question, or why it has none


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A stored run with its calibrator, under the name by which requests choose it."""

    name: str
    run: Run
    calibrator: Calibrator | None

    @classmethod
    def load(cls, folder: Path, *, name: str) -> Self:
        """Load a run; raises ArtifactError when it is missing, damaged or fails its self-check."""
        return cls(name, load_run(folder), load_calibrator(folder))

    def facts(self) -> Row:
        """Return what a client can know of the model before it asks."""
        manifest = self.run.manifest
        held_back = self.run.conformal is not None or (
            self.calibrator is not None and bool(self.calibrator.conformal)
        )
        return {
            "name": self.name,
            "method": manifest.get("method", ""),
            "title": manifest.get("title", ""),
            "level_of_theory": manifest.get("level_of_theory", ""),
            "n": manifest.get("n", 0),
            "elements": list(self.run.descriptor.species),
            "baseline": self.run.baseline,
            "intervals": [kind for kind in INTERVAL_KINDS if kind != "conformal" or held_back],
            "notes": self.notes,
        }

    @property
    def notes(self) -> list[str]:
        """Warnings of the run, and what is stored with it to mend its intervals."""
        mended = [] if self.calibrator is None else [self.calibrator.sentence]
        return [*mended, *self.run.manifest.get("warnings", ())]

    def answer(self, questions: Sequence[Question], described: Sequence[Descriptors]) -> list[Rows]:
        """Return for every question a row for every structure, with the fields of the CSV, or why it has no answer.

        Numbers of refused structures are None. The questions share the passes through the run's draws, and each has
        the digits that it has alone. A Refusal or a BandgapError stands where the run gives no such interval, or a
        baseline is missing.
        """
        found: dict[int, Rows] = {}
        asked: dict[int, tuple[float, IntervalKind, Request]] = {}
        for k, (question, own) in enumerate(zip(questions, described, strict=True)):
            try:
                level, kind = self._interval(question.choice)
                asked[k] = level, kind, (question.records, own, self._baseline(question))
            except (BandgapError, Refusal) as error:
                found[k] = error
        drawn = draw_requests(self.run, [request for _, _, request in asked.values()])
        for (k, (level, kind, (records, *_))), own_draws in zip(asked.items(), drawn, strict=True):
            try:
                found[k] = self._rows(records, own_draws, level=level, kind=kind)
            except (BandgapError, Refusal) as error:
                found[k] = error
        return [found[k] for k in range(len(questions))]

    def _rows(
        self,
        records: Sequence[StructureRecord],
        drawn: DrawnRecords,
        *,
        level: float,
        kind: IntervalKind,
    ) -> list[Row]:
        predictions = record_predictions(self.run, records, drawn)
        if self.calibrator is not None:
            predictions = self.calibrator.apply(predictions)
        return rows_of(predictions, level=level, kind=kind)

    def _interval(self, choice: Choice) -> tuple[float, IntervalKind]:
        level, kind = (
            check_level(LEVEL if choice.level is None else choice.level),
            choice.interval or INTERVAL,
        )
        check_kind(kind)
        return level, cast(IntervalKind, kind)

    def _baseline(self, question: Question) -> Floats | None:
        """Return the baseline (n,) in eV: the one that the request gives, else the structures' own under its name."""
        given = question.baselines_eV
        if not self.run.baseline:
            if any(value is not None for value in given):
                raise InputError(
                    "A baseline is given, but this run was trained without one. Leave it out."
                )
            return None
        name = self.run.baseline
        own = np.full(len(given), math.nan)
        if any(name in record.info for record in question.records):
            own = baselines_from_info(question.records, name)
        values = np.array(
            [math.nan if value is None else value for value in given], dtype=np.float64
        )
        found: Floats = np.where(np.isnan(values), own, values)
        if np.isnan(found).all():
            raise Refusal(
                422,
                f"This model corrects {name!r} of every structure: give it in eV as baseline_eV of each structure of a "
                f"JSON body, as baseline_eV=1.5,2.5,... in the address, or under the key {name} of extXYZ frames.",
            )
        return found


def load_models(folders: Sequence[Path]) -> dict[str, ServedModel]:
    """Load runs under the names of their folders; the second of two equal names gets a number."""
    models: dict[str, ServedModel] = {}
    for folder in folders:
        stem, number = folder.resolve().name, 1
        name = stem
        while name in models:
            number += 1
            name = f"{stem}-{number}"
        models[name] = ServedModel.load(folder, name=name)
    return models


def rows_of(predictions: Predictions, *, level: float, kind: IntervalKind) -> list[Row]:
    """Return the table's rows as plain values, numbers with the six decimals of the CSV."""
    columns = {
        name: [_plain(v) for v in values]
        for name, values in predictions.to_columns(level, kind).items()
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value
    number = float(cast(float, value))
    return None if math.isnan(number) else round(number, 6) + 0.0  # + 0.0: never -0.0
