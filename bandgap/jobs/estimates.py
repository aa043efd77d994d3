"""How long a transfer will take: the cost of the method, corrected by earlier runs on this server.

Costs are seconds of one fit on the demo data (`bandgap.transfer.shared.cost`). Another machine, or other features, may
be off by a factor of two or more, until runs on it correct them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from bandgap.foundation.damage import parse_json
from bandgap.jobs.database import row_damage_reported
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import TransferRequest
from bandgap.transfer.shared.cost import Cost

START_S = 8.0  # a new process, its imports, reading structures and writing the run
DESCRIBE_S = 1e-4  # an atom of a crystal: 5 ms for 56 of them (`descriptors.presets`)
PARTS_S = {  # an atom of a crystal, more, by the part of the descriptor: cells of 116 and 134 atoms
    "neighbours": 6e-5,
    "soap": 1.7e-4,
    "potential": 5.2e-3,  # CHGNet: 0.6 s for 116 of them
}
LEVELS_S = 5e-3  # an atom of a crystal, more: 0.3 s for 60 of them
LAST_RUNS = 5
SPREAD = 2.0  # a factor either way, where the machine is not known


Basis = Literal["this method here", "other methods here", "reference"]


@dataclass(frozen=True)
class Work:
    """What a transfer is asked to do, as far as its time depends on it."""

    method: str
    n: int
    iterations: int | None = None  # warm-up and draws of a sampler, None: the method's own
    networks: int = 1

    @staticmethod
    def of(request: TransferRequest) -> "Work":
        """Return what a request asks for; it has a method and a number of structures, as pages give them."""
        sampler = request.settings.get("sampler", {})
        iterations = (
            sampler["warmup"] + sampler["draws"] if {"warmup", "draws"} <= set(sampler) else None
        )
        return Work(str(request.method), request.n or 0, iterations)


@dataclass(frozen=True)
class PastRun:
    """A finished transfer of this server and how long it took."""

    work: Work
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """Seconds that a transfer will take, what that rests on, and how many earlier runs."""

    seconds: float
    basis: Basis
    runs: int = 0

    @property
    def range_s(self) -> tuple[float, float]:
        """Seconds between which the time will lie, as far as is known."""
        spread = 1.3 if self.basis == "this method here" else SPREAD
        return self.seconds / spread, self.seconds * spread


def describe_seconds(descriptor: Mapping[str, Any]) -> float:
    """Return the seconds in which an atom of a crystal is described, from the plain values of the settings.

    >>> describe_seconds({"species": ["H"], "soap": None, "potential": "none"}) == DESCRIBE_S
    True
    """
    return DESCRIBE_S + sum(
        seconds
        for name, seconds in PARTS_S.items()
        if descriptor.get(name) not in (None, False, "none")
    )


def estimate_transfer(
    work: Work,
    costs: Mapping[str, Cost],
    *,
    past: Sequence[PastRun] = (),
    atoms: int = 0,
    atom_s: float = DESCRIBE_S,
    levels_atoms: int = 0,
) -> Estimate | None:
    """Return the time of a transfer; None for a method without a cost.

    Parameters
    ----------
    work
        What the transfer does.
    costs
        Costs of the methods by name.
    past
        Finished runs of this server, the newest first. Runs of other methods tell how fast the machine is only if the
        fit, and not the start of the process, took most of their time.
    atoms, atom_s
        Number of atoms in structures that have no descriptor yet, and the seconds that each takes.
    levels_atoms
        Number of atoms in structures whose electron levels are to be computed.
    """
    if work.method not in costs:
        return None
    expected = reference_seconds(work, costs[work.method])
    known = [
        (run, reference_seconds(run.work, costs[run.work.method]))
        for run in past
        if run.work.method in costs
    ]
    own = [run.seconds / seconds for run, seconds in known if run.work.method == work.method][
        :LAST_RUNS
    ]
    others = [run.seconds / seconds for run, seconds in known if seconds > 2 * START_S][:LAST_RUNS]
    describe = atoms * atom_s + levels_atoms * LEVELS_S
    if own:
        return Estimate(expected * median(own) + describe, "this method here", len(own))
    if others:
        return Estimate(expected * median(others) + describe, "other methods here", len(others))
    return Estimate(expected + describe, "reference")


def reference_seconds(work: Work, cost: Cost) -> float:
    """Return the time by the method's cost alone."""
    return START_S + work.networks * cost.seconds(work.n, work.iterations)


def past_transfers(jobs: JobStore, *, limit: int = 60) -> list[PastRun]:
    """Return the times of the last finished transfers of this server, of all workspaces, without what they were about.

    Runs that went on from a checkpoint are left out.
    """
    finished = finished_jobs(jobs, "transfer", limit=limit)
    with row_damage_reported("job"):
        return [
            PastRun(Work.of(TransferRequest.of(payload["request"])), seconds)
            for payload, result, seconds in finished
            if not result.get("resumed")
        ]


def finished_jobs(
    jobs: JobStore, kind: str, *, limit: int
) -> list[tuple[dict[str, Any], dict[str, Any], float]]:
    """Return payload, result and seconds of the last finished jobs of a kind, of all workspaces, the newest first."""
    rows = jobs.database.rows(
        "SELECT payload, result, started, finished FROM job WHERE state = 'finished' AND kind = ?"
        " ORDER BY finished DESC LIMIT ?",
        kind,
        limit,
    )
    with row_damage_reported("job"):
        return [
            (
                dict(parse_json(row["payload"], what="payload")),
                dict(parse_json(row["result"], what="result")),
                max(
                    row["finished"] - row["started"], 0.0
                ),  # below 0 where the clock was set meanwhile
            )
            for row in rows
            if row["started"]
        ]


def atoms_to_describe(jobs: JobStore, dataset: Dataset, source: str) -> int:
    """Return the atoms of a data set whose descriptors no finished run from this source has put into the cache."""
    if any(past_source == source for past_source, _ in _finished_transfers(jobs, dataset)):
        return 0
    return _labelled_atoms(jobs, dataset)


def atoms_with_levels(
    jobs: JobStore, dataset: Dataset, source: str, request: TransferRequest, *, total: int
) -> int:
    """Return the atoms of a run's structures whose electron levels no finished run has put into the cache.

    They are computed of `n` structures to learn from and `n_test` held out among `total`, so about of that share of all
    atoms; of none where a finished run had the same split of as many structures.
    """
    if request.levels in (None, "none"):
        return 0
    n = request.n or 0
    same = ("levels", "seed", "n_test", "by_formula")
    for past_source, past in _finished_transfers(jobs, dataset):
        same_split = all(getattr(past, name) == getattr(request, name) for name in same)
        if past_source == source and same_split and (past.n or 0) >= n:
            return 0
    share = min(1.0, (n + (request.n_test or 0)) / max(total, 1))
    return round(share * _labelled_atoms(jobs, dataset))


def _finished_transfers(jobs: JobStore, dataset: Dataset) -> list[tuple[str, TransferRequest]]:
    """Return source and request of the finished transfers to a data set."""
    rows = jobs.database.rows(
        "SELECT payload FROM job WHERE workspace = ? AND kind = 'transfer' AND state = 'finished'",
        dataset.workspace,
    )
    with row_damage_reported("job"):
        payloads = [parse_json(row["payload"], what="payload") for row in rows]
        return [
            (p["source"], TransferRequest.of(p["request"]))
            for p in payloads
            if p["dataset"] == dataset.id
        ]


def _labelled_atoms(jobs: JobStore, dataset: Dataset) -> int:
    (row,) = jobs.database.rows(
        "SELECT total(n_atoms) FROM structure WHERE dataset = ? AND gap_eV IS NOT NULL AND status != 'refused'",
        dataset.id,
    )
    return int(row[0])
