"""Estimate the time of a job: by measured rates, and by what jobs like it took on this server.

The rates are those of one core: of describing structures here, of a fit in the cost of its method
(`bandgap.transfer.shared.cost`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any, Final, NamedTuple

from bandgap.descriptors.electron_levels import HUECKEL, METHOD, MOLECULES
from bandgap.foundation.damage import parse_json
from bandgap.jobs.database import row_damage_reported
from bandgap.jobs.entries import SystemEntry
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import chain_iterations
from bandgap.jobs.sources import stored_potentials
from bandgap.jobs.store import JobStore
from bandgap.predictions.gap_distribution import ZERO_EV, enough_metals
from bandgap.runs.requests import SourceRequest, TransferRequest
from bandgap.sources.cards import NO_SOURCE
from bandgap.transfer.shared.cost import Cost

START_S: Final = 5.0  # a new process, its imports and writing the result
LAST_RUNS: Final = 5
PAST_JOBS: Final = 60
# Seconds to describe a structure, and each of its atoms: between those of fast and slow processors,
# which differ by four in the products of a potential.
FEATURES_S: Final = (0.004, 0.0003)
POTENTIALS_S: Final = {"chgnet": (0.012, 0.0013), "sevennet": (0.025, 0.005)}
LEVELS_S: Final = {
    "none": (0.0, 0.0),
    METHOD: (0.0, 0.0015),
    MOLECULES: (0.12, 0.0),
    HUECKEL: (0.005, 0.0002),
}
CRYSTAL_LEVELS_S: Final = (0.0, 0.04)
METALS: Final = Cost(6.0, 8.0)  # the classifier, where labels contain metals


@dataclass(frozen=True)
class Estimate:
    """Seconds that a job will take, and the number of past jobs behind them; 0 for rates alone."""

    seconds: float
    runs: int = 0


class LabelledSize(NamedTuple):
    """Number of labelled structures, mean atoms, whether one is a crystal, and share of metals."""

    n: int
    atoms: float
    periodic: bool
    metals: float


class JobTimes:
    """Estimated times of jobs on this server; what they need is read from the store once.

    Past jobs are those of all workspaces, without transfers that resumed from a checkpoint.
    """

    def __init__(self, jobs: JobStore, library: Library) -> None:
        self._jobs = jobs
        self._library = library
        self._methods = library.methods()
        self._system = library.system() or SystemEntry()
        self._described: dict[object, int] = {}  # structures by their data set and features
        self._potentials = cache(partial(stored_potentials, library))
        self._size = cache(self._read_size)
        self._past = cache(self._read_past)

    def transfer(self, dataset: str, source: str, request: TransferRequest) -> Estimate | None:
        """Return the time of a transfer of a source model to a data set, as `estimate` does."""
        payload = {"dataset": dataset, "source": source, "request": request.to_values()}
        return self.estimate("transfer", payload)

    def estimate(self, kind: str, payload: Mapping[str, Any]) -> Estimate | None:
        """Return the time of a job, None where neither rates nor past jobs tell it.

        It is the work of the job times the median of what the last jobs that are like it took for
        theirs, a training's above `START_S`.
        """
        past = self._past(kind)
        like, work = self._work(kind, payload)
        rates = [rate for past_like, rate in past if past_like == like][-LAST_RUNS:]
        if not work or not (rates or kind == "transfer"):
            return None
        return Estimate(_start_s(kind) + work * median(rates or [1.0]), len(rates))

    def _read_past(self, kind: str) -> list[tuple[object, float]]:
        """Return what the last finished jobs are like, and their seconds for their work."""
        rows = self._jobs.database.rows(
            "SELECT payload, result, finished - started AS seconds FROM job WHERE kind = ?"
            " AND state = 'finished' AND started ORDER BY finished DESC LIMIT ?",
            kind,
            PAST_JOBS,
        )
        past = []
        with row_damage_reported("job"):
            for row in reversed(rows):
                payload, result = (
                    dict(parse_json(row[name], what=name)) for name in ("payload", "result")
                )
                like, work = self._work(kind, payload)
                if work and not result.get("resumed"):
                    past.append((like, max(row["seconds"] - _start_s(kind), 1.0) / work))
                if kind == "transfer":
                    key, n, _ = self._features(payload)
                    self._described[key] = max(n, self._described.get(key, 0))
        return past

    def _work(self, kind: str, payload: Mapping[str, Any]) -> tuple[object, float]:
        """Return what a job is like, and its work; 0 where it is not known.

        The work of a transfer is its seconds by the rates, that of a training its atoms times
        epochs; other jobs of a kind are alike.
        """
        if kind == "train_source":
            training = SourceRequest(**payload["request"])
            size = self._size(payload.get("dataset", ""))
            extras = training.variational, training.snapshots is None
            like = (training.network, *extras, payload.get("file"))
            return like, training.max_epochs * (1.0 if like[-1] else size.n * size.atoms)
        if kind != "transfer":
            return None, 1.0
        request = TransferRequest(**payload["request"])
        method = self._methods.get(str(request.method))
        if method is None or method.cost is None:
            return None, 0.0
        key, n, structure_s = self._features(payload)
        n_new = max(n - self._described.get(key, 0), 0)
        n_train = request.n or 0
        fit_s = method.cost.seconds(n_train, chain_iterations(request.settings))
        if enough_metals(round(self._size(payload["dataset"]).metals * n_train), n_train):
            fit_s += METALS.seconds(n_train, None)
        described_s = n_new * structure_s / self._system.cores
        return request.method, START_S + described_s + fit_s

    def _features(self, payload: Mapping[str, Any]) -> tuple[object, int, float]:
        """Return data and features of a transfer, and its structures with the seconds of each."""
        request = TransferRequest(**payload["request"])
        source = payload["source"]
        size = self._size(payload["dataset"])
        names = request.preset or " ".join(self._system.potentials)
        if source != NO_SOURCE:
            names = self._potentials(source)
        levels = request.levels or "none"
        rates = [FEATURES_S, LEVELS_S.get(levels, LEVELS_S[METHOD])]
        rates += [rate for name, rate in POTENTIALS_S.items() if name in names]
        if size.periodic and levels not in ("none", HUECKEL, MOLECULES):
            rates.append(CRYSTAL_LEVELS_S)
        n = (request.n or 0) + (request.n_test or 0)
        seconds = sum(structure_s + size.atoms * atom_s for structure_s, atom_s in rates)
        return (payload["dataset"], source, levels, names), n, seconds

    def _read_size(self, dataset: str) -> LabelledSize:
        ((n, atoms, periodic, metals),) = self._library.database.rows(
            "SELECT count(*), coalesce(avg(n_atoms), 0), coalesce(max(periodic), 0),"
            " coalesce(avg(gap_eV <= ?), 0) FROM structure"
            " WHERE dataset = ? AND gap_eV IS NOT NULL AND status != 'refused'",
            ZERO_EV,
            dataset,
        )
        return LabelledSize(n, atoms, bool(periodic), metals)


def _start_s(kind: str) -> float:
    """Return the seconds of a job that do not grow with its work; a transfer's are part of it."""
    return START_S if kind == "train_source" else 0.0
