"""Estimate the time of a transfer or a training by the last ones of this server.

Before the first transfer with a method, its cost on the demo data counts
(`bandgap.transfer.shared.cost`), which may be off by a factor of two or more on another machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bandgap.foundation.damage import parse_json
from bandgap.jobs.database import row_damage_reported
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import chain_iterations
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import SourceRequest, TransferRequest

START_S = 8.0  # a new process, its imports, reading structures and writing the run
LAST_RUNS = 5
SPREAD = 2.0  # factor up and down without past runs
SPREAD_WITH_RUNS = 1.3


@dataclass(frozen=True)
class Estimate:
    """Seconds that a job will take, and the number of past jobs behind them; 0 for a cost alone."""

    seconds: float
    runs: int = 0

    @property
    def range_s(self) -> tuple[float, float]:
        """Range in seconds within which the time will probably be."""
        spread = SPREAD_WITH_RUNS if self.runs else SPREAD
        return self.seconds / spread, self.seconds * spread


@dataclass(frozen=True)
class FinishedJob:
    """Payload and result of a finished job, and its duration."""

    payload: Mapping[str, Any]
    result: Mapping[str, Any]
    seconds: float


class TransferTimes:
    """Estimated times of transfers on this server; what they need is read from the store once.

    Past transfers are those of all workspaces, without those that resumed from a checkpoint.
    """

    def __init__(self, jobs: JobStore, library: Library) -> None:
        self._methods = library.methods()
        with row_damage_reported("job"):
            self._past = [
                (TransferRequest.of(job.payload["request"]), job.seconds)
                for job in finished_jobs(jobs, "transfer")
                if not job.result.get("resumed")
            ]

    def estimate(
        self, request: TransferRequest, *, iterations: int | None = None
    ) -> Estimate | None:
        """Return the time of a transfer, None for a method without a cost.

        It is that of the method's cost times the median ratio of the last transfers with the method
        to their costs. `iterations` are those of each chain, the request's own by default.
        """
        method = self._methods.get(str(request.method))
        if method is None or (cost := method.cost) is None:
            return None

        def cost_s(transfer: TransferRequest, iterations: int | None = None) -> float:
            length = iterations or chain_iterations(transfer.settings)
            return START_S + cost.seconds(transfer.n or 0, length)

        ratios = [s / cost_s(past) for past, s in self._past if past.method == request.method]
        ratios = ratios[:LAST_RUNS]
        return Estimate(cost_s(request, iterations) * median(ratios or [1.0]), len(ratios))


def estimate_training(
    jobs: JobStore, request: SourceRequest, *, n_atoms: int, device: str
) -> Estimate | None:
    """Return the time of a training with all epochs that it allows, by its atoms times epochs.

    None before the first training on this device with the same kind of network and the same extras.
    """

    def kind_of(past: SourceRequest, device: str) -> tuple[object, ...]:
        return device, past.network, past.variational, past.snapshots is None

    with row_damage_reported("job"):
        rates = [
            max(job.seconds - START_S, 0.0) / max(work["atoms"] * work["epochs"], 1)
            for job in finished_jobs(jobs, "train_source")
            if (work := job.result.get("work"))
            and kind_of(SourceRequest.of(job.payload["request"]), work["device"])
            == kind_of(request, device)
        ][:LAST_RUNS]
    if not rates:
        return None
    return Estimate(START_S + median(rates) * n_atoms * request.max_epochs, len(rates))


def atoms_of_file(jobs: JobStore, name: str) -> int | None:
    """Return the atoms in a file of the server by the last training from it, None before that."""
    counts = (
        int(job.result["work"]["atoms"])
        for job in finished_jobs(jobs, "train_source")
        if job.result.get("work") and job.payload.get("file") == name
    )
    return next(counts, None)


def labelled_atoms(library: Library, dataset: str) -> int:
    """Return the number of atoms in the usable structures of a data set that have a gap."""
    (row,) = library.database.rows(
        "SELECT total(n_atoms) FROM structure WHERE dataset = ? AND gap_eV IS NOT NULL "
        "AND status != 'refused'",
        dataset,
    )
    return int(row[0])


def finished_jobs(jobs: JobStore, kind: str, *, limit: int = 60) -> list[FinishedJob]:
    """Return the last finished jobs of a kind, of all workspaces, the newest first."""
    rows = jobs.database.rows(
        "SELECT payload, result, started, finished FROM job WHERE state = 'finished' AND kind = ?"
        " AND started ORDER BY finished DESC LIMIT ?",
        kind,
        limit,
    )
    with row_damage_reported("job"):
        return [
            FinishedJob(
                dict(parse_json(row["payload"], what="payload")),
                dict(parse_json(row["result"], what="result")),
                max(row["finished"] - row["started"], 0.0),  # below 0 where the clock was set
            )
            for row in rows
        ]
