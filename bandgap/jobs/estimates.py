"""Estimate the time of a transfer: the cost of the method, corrected by past runs on this server.

Costs are seconds of one fit on the demo data (`bandgap.transfer.shared.cost`). On another machine,
or with other features, they may be off by a factor of two or more, until runs on it correct them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from bandgap.descriptors.electron_levels import HUECKEL
from bandgap.foundation.damage import parse_json
from bandgap.jobs.database import row_damage_reported
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import TransferRequest
from bandgap.transfer.shared.cost import Cost

START_S = 8.0  # a new process, its imports, reading structures and writing the run
DESCRIBE_S = 1e-4  # of an atom of a crystal: 5 ms for 56 atoms (`descriptors.presets`)
# More for an atom, by the part of the descriptor; measured in cells of 116 and 134 atoms.
PARTS_S = {
    "neighbours": 6e-5,
    "soap": 1.7e-4,
    "potential": 5.2e-3,  # CHGNet: 0.6 s for 116 atoms
    "second_potential": 9.3e-3,  # SevenNet: 0.55 s for 59 atoms
    "bonds": 2e-4,  # 6 ms for a molecule of 30 atoms
}
LEVELS_S = 5e-3  # more for an atom with electron levels: 0.3 s for 60 atoms
LAST_RUNS = 5
SPREAD = 2.0  # factor up and down without past runs of the method
SPREAD_WITH_RUNS = 1.3

Basis = Literal["this method here", "other methods here", "reference"]


@dataclass(frozen=True)
class Work:
    """A requested transfer, as far as its time depends on it."""

    method: str
    n: int
    iterations: int | None = None  # warm-up and draws of a sampler; None: the method's default
    networks: int = 1

    @staticmethod
    def of(request: TransferRequest) -> "Work":
        """Return the work of a request that has a method and a number of structures."""
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
    """Seconds that a transfer will take, the basis of the estimate, and its number of past runs."""

    seconds: float
    basis: Basis
    runs: int = 0

    @property
    def range_s(self) -> tuple[float, float]:
        """Range in seconds within which the time will probably be."""
        spread = SPREAD_WITH_RUNS if self.basis == "this method here" else SPREAD
        return self.seconds / spread, self.seconds * spread


def describe_seconds(descriptor: Mapping[str, Any]) -> float:
    """Return the seconds to describe an atom of a crystal, from the plain values of the settings.

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
        Finished runs of this server, the newest first. Runs of other methods count only if the fit,
        and not the start of the process, took most of their time.
    atoms, atom_s
        Number of atoms in structures that have no descriptor yet, and seconds of each atom.
    levels_atoms
        Number of atoms in structures whose electron levels are to be computed.
    """
    if work.method not in costs:
        return None
    expected = reference_seconds(work, costs[work.method])
    same_method_ratios = []
    all_ratios = []
    for run in past:
        if run.work.method not in costs:
            continue
        run_expected = reference_seconds(run.work, costs[run.work.method])
        if run.work.method == work.method:
            same_method_ratios.append(run.seconds / run_expected)
        if run_expected > 2 * START_S:
            all_ratios.append(run.seconds / run_expected)
    describe = atoms * atom_s + levels_atoms * LEVELS_S
    bases: tuple[tuple[Basis, list[float]], ...] = (
        ("this method here", same_method_ratios[:LAST_RUNS]),
        ("other methods here", all_ratios[:LAST_RUNS]),
    )
    for basis, ratios in bases:
        if ratios:
            return Estimate(expected * median(ratios) + describe, basis, len(ratios))
    return Estimate(expected + describe, "reference")


def reference_seconds(work: Work, cost: Cost) -> float:
    """Return the time by the method's cost alone."""
    return START_S + work.networks * cost.seconds(work.n, work.iterations)


def past_transfers(jobs: JobStore, *, limit: int = 60) -> list[PastRun]:
    """Return the last finished transfers of this server, of all workspaces, without their subjects.

    Runs that resumed from a checkpoint are left out.
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
    """Return payload, result and seconds of the last finished jobs of a kind, of all workspaces.

    The newest is the first.
    """
    rows = jobs.database.rows(
        "SELECT payload, result, started, finished FROM job WHERE state = 'finished' AND kind = ?"
        " ORDER BY finished DESC LIMIT ?",
        kind,
        limit,
    )
    with row_damage_reported("job"):
        jobs_with_times = []
        for row in rows:
            if row["started"]:
                payload = dict(parse_json(row["payload"], what="payload"))
                result = dict(parse_json(row["result"], what="result"))
                # below 0 where the clock was set during the job
                seconds = max(row["finished"] - row["started"], 0.0)
                jobs_with_times.append((payload, result, seconds))
        return jobs_with_times


def atoms_to_describe(jobs: JobStore, dataset: Dataset, source: str) -> int:
    """Return the number of atoms of a data set without descriptors in the cache.

    It is 0 where a run from the same source has finished.
    """
    if _finished_transfers(jobs, dataset, source, limit=1):
        return 0
    return _labelled_atoms(jobs, dataset)


def atoms_with_levels(
    jobs: JobStore, dataset: Dataset, source: str, request: TransferRequest, *, total: int
) -> int:
    """Return the number of atoms of a run's structures without electron levels in the cache.

    Levels are computed for `n` training and `n_test` test structures among `total`, so for about
    this share of all atoms. None are computed where a finished run has the same split and as many
    structures.
    """
    if request.levels in (None, "none", HUECKEL):  # these take milliseconds a structure
        return 0
    n = request.n or 0
    split_fields = ("levels", "seed", "n_test", "by_formula")
    for past in _finished_transfers(jobs, dataset, source):
        same_split = all(getattr(past, name) == getattr(request, name) for name in split_fields)
        if same_split and (past.n or 0) >= n:
            return 0
    share = min(1.0, (n + (request.n_test or 0)) / max(total, 1))
    return round(share * _labelled_atoms(jobs, dataset))


def _finished_transfers(
    jobs: JobStore, dataset: Dataset, source: str, *, limit: int = -1
) -> list[TransferRequest]:
    """Return the requests of the finished transfers from a source to a data set.

    At most `limit` of them are read; -1 is no limit.
    """
    rows = jobs.database.rows(
        "SELECT payload FROM job WHERE workspace = ? AND kind = 'transfer' AND state = 'finished'"
        " AND json_extract(payload, '$.dataset') = ? AND json_extract(payload, '$.source') = ?"
        " LIMIT ?",
        dataset.workspace,
        dataset.id,
        source,
        limit,
    )
    with row_damage_reported("job"):
        return [
            TransferRequest.of(parse_json(row["payload"], what="payload")["request"])
            for row in rows
        ]


def _labelled_atoms(jobs: JobStore, dataset: Dataset) -> int:
    (row,) = jobs.database.rows(
        "SELECT total(n_atoms) FROM structure WHERE dataset = ? AND gap_eV IS NOT NULL "
        "AND status != 'refused'",
        dataset.id,
    )
    return int(row[0])
