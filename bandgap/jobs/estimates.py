"""How long a transfer will take, from a table of measured costs, corrected by what earlier runs on this server took.

The table holds processor seconds of one fit on the demo data (1,260 features, hidden layers of 128 and 64 units) at
n = 50 and n = 200; for what samples a network, it holds what the registry of methods says of 200 crystals on two cores,
and about half of that at 50. Between and beyond these sizes the cost is a power of n. Another machine, or other
features, may be off by a factor of two or more, until runs on it correct the table.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import JobStore

START_S = 8.0  # a new process, its imports, reading structures and writing the run
DESCRIBE_S = 1e-4  # an atom of a crystal: 5 ms for 56 of them (`descriptors.presets`)
PARTS_S = {  # an atom of a crystal, more, by the part of the descriptor: cells of 116 and 134 atoms
    "neighbours": 6e-5,
    "soap": 1.7e-4,
    "potential": 5.2e-3,  # CHGNet: 0.6 s for 116 of them
}
LEVELS_S = 5e-3  # an atom of a crystal, more: 0.3 s for 60 of them
SIZES = (50, 200)
LAST_RUNS = 5
SPREAD = 2.0  # a factor either way, where the machine is not known


Basis = Literal["this method here", "other methods here", "reference"]


@dataclass(frozen=True)
class Cost:
    """Seconds of a fit at n = 50 and n = 200; those of a sampler of all rows grow with its iterations.

    `sampler` says in which coordinates a method's chains move (`SamplerConfig`), "" that it has none, "own" that they
    are not of weights: their settings are the method's own.
    """

    small_s: float
    large_s: float
    sampler: Literal["", "auto", "whitened", "mini-batches", "own"] = ""

    def seconds(self, n: int, iterations: int | None) -> float:
        """Return the seconds of a fit to n structures, a power of n through the two sizes, never falling with n."""
        power = max(0.0, math.log(self.large_s / self.small_s) / math.log(SIZES[1] / SIZES[0]))
        coordinates = self.sampler
        work = 1.0
        if iterations and (coordinates == "auto" or coordinates == "whitened"):
            work = iterations / usual_iterations(coordinates)
        growth: float = (n / SIZES[1]) ** power
        return self.large_s * growth * work


def usual_iterations(coordinates: Literal["auto", "whitened"] = "auto") -> int:
    """Return the iterations of a default sampler, to which its cost refers."""
    sampler = SamplerConfig(coordinates=coordinates).planned(can_frame=True)
    return sampler.n_warmup + sampler.n_draws


@dataclass(frozen=True)
class Work:
    """What a transfer is asked to do, as far as its time depends on it."""

    method: str
    n: int
    iterations: int | None = None  # warm-up and draws of a sampler, None: the method's own
    networks: int = 1

    @staticmethod
    def of(config: Mapping[str, Any]) -> "Work":
        """Return what the settings of a run ask for."""
        sampler = config.get("settings", {}).get("sampler", {})
        iterations = sampler["warmup"] + sampler["draws"] if {"warmup", "draws"} <= set(sampler) else None
        return Work(str(config["method"]), int(config["n"]), iterations)


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
        seconds for name, seconds in PARTS_S.items() if descriptor.get(name) not in (None, False, "none")
    )


def estimate_transfer(
    work: Work,
    *,
    past: Sequence[PastRun] = (),
    atoms: int = 0,
    atom_s: float = DESCRIBE_S,
    levels_atoms: int = 0,
) -> Estimate | None:
    """Return the time of a transfer; None for a method whose cost nobody measured and that was never run here.

    `past` are finished runs of this server, the newest first; `atoms` is the number of those in structures that have
    still to be described, at `atom_s` each, `levels_atoms` of those whose electron levels are to be computed. Runs of
    other methods say how fast the machine is only where the fit, and not the start of the process, took most of their
    time.
    """
    expected = reference_seconds(work)
    if expected is None:
        return None
    ratios = [(run, run.seconds / known) for run in past if (known := reference_seconds(run.work))]
    own = [ratio for run, ratio in ratios if run.work.method == work.method][:LAST_RUNS]
    others = [ratio for run, ratio in ratios if (reference_seconds(run.work) or 0.0) > 2 * START_S][:LAST_RUNS]
    describe = atoms * atom_s + levels_atoms * LEVELS_S
    if own:
        return Estimate(expected * median(own) + describe, "this method here", len(own))
    if others:
        return Estimate(expected * median(others) + describe, "other methods here", len(others))
    return Estimate(expected + describe, "reference")


def reference_seconds(work: Work) -> float | None:
    """Return the time by the table alone, None for a method that it does not have."""
    cost = COSTS.get(work.method)
    return None if cost is None else START_S + work.networks * cost.seconds(work.n, work.iterations)


def past_transfers(jobs: JobStore, *, limit: int = 60) -> list[PastRun]:
    """Return the times of the last finished transfers of this server, of all workspaces, without what they were about.

    Runs that went on from a checkpoint are left out.
    """
    found = finished_jobs(jobs, "transfer", limit=limit)
    return [PastRun(Work.of(payload), seconds) for payload, result, seconds in found if not result.get("resumed")]


def finished_jobs(jobs: JobStore, kind: str, *, limit: int) -> list[tuple[dict[str, Any], dict[str, Any], float]]:
    """Return payload, result and seconds of the last finished jobs of a kind, of all workspaces, the newest first."""
    rows = jobs.database.rows(
        "SELECT payload, result, started, finished FROM job WHERE state = 'finished' AND kind = ?"
        " ORDER BY finished DESC LIMIT ?",
        kind,
        limit,
    )
    return [
        (json.loads(row["payload"]), json.loads(row["result"]), row["finished"] - row["started"])
        for row in rows
        if row["started"]
    ]


def atoms_to_describe(jobs: JobStore, dataset: Dataset, source: str) -> int:
    """Return the atoms of a data set whose descriptors no finished run from this source has put into the cache."""
    done = _finished_transfers(jobs, dataset)
    if any((p["dataset"], p["source"]) == (dataset.id, source) for p in done):
        return 0
    return _labelled_atoms(jobs, dataset)


def atoms_with_levels(jobs: JobStore, dataset: Dataset, config: Mapping[str, Any], *, total: int) -> int:
    """Return the atoms of a run's structures whose electron levels no finished run has put into the cache.

    They are computed of `n` structures to learn from and `n_test` held out among `total`, so about of that share of all
    atoms; of none where a finished run had the same split of as many structures.
    """
    if "levels" not in config:
        return 0
    same = ("source", "levels", "seed", "n_test", "by_formula")
    wanted = [config.get(name) for name in same]
    done = [p for p in _finished_transfers(jobs, dataset) if p["dataset"] == dataset.id]
    if any([p.get(name) for name in same] == wanted and p["n"] >= config["n"] for p in done):
        return 0
    share = min(1.0, (int(config["n"]) + int(config["n_test"])) / max(total, 1))
    return round(share * _labelled_atoms(jobs, dataset))


def _finished_transfers(jobs: JobStore, dataset: Dataset) -> list[dict[str, Any]]:
    rows = jobs.database.rows(
        "SELECT payload FROM job WHERE workspace = ? AND kind = 'transfer' AND state = 'finished'", dataset.workspace
    )
    return [json.loads(row["payload"]) for row in rows]


def _labelled_atoms(jobs: JobStore, dataset: Dataset) -> int:
    (row,) = jobs.database.rows(
        "SELECT total(n_atoms) FROM structure WHERE dataset = ? AND gap_eV IS NOT NULL AND status != 'refused'",
        dataset.id,
    )
    return int(row[0])


COSTS: Mapping[str, Cost] = {
    "btl_pcp_pe": Cost(35, 60, sampler="auto"),
    "btl_pcp_sg": Cost(220, 220, sampler="mini-batches"),
    "btl_pcp_vi": Cost(90, 180, sampler="whitened"),
    "btl_vi": Cost(57, 127),
    "pbp": Cost(0.1, 0.4),
    "sspbp": Cost(0.1, 0.4),
    "btl_bnn": Cost(55, 110, sampler="auto"),
    "bnn": Cost(55, 110, sampler="auto"),
    "feature_gp": Cost(0.2, 0.5),
    "vecchia_gp": Cost(2, 4, sampler="own"),
    "ulisse_gp": Cost(0.6, 5, sampler="own"),
    "nptl": Cost(5.3, 22),
    "nptl_head": Cost(2, 2.5),
    "nptl_soup": Cost(5.2, 27),
    "last_layer_horseshoe": Cost(5, 5),
    "last_layer_pcp": Cost(0.3, 0.3),
    "last_layer_ridge": Cost(0.1, 0.1),
    "last_layer_ols": Cost(0.1, 0.1),
    "mc_dropout": Cost(0.5, 1),
    "ensemble": Cost(0.6, 1.6),
    "l2sp": Cost(0.8, 3.6),
    "ptyl": Cost(9, 36),
    "sghmc": Cost(1.2, 5.7),
    "fine_tune": Cost(0.5, 1.5),
    "two_stage": Cost(0.8, 4.2),
    "freeze": Cost(0.4, 2),
    "target_only": Cost(0.6, 5.7),
    "kernel_ridge": Cost(0.2, 0.5),
    "gaussian_process": Cost(0.2, 0.5),
    "random_forest": Cost(1.8, 3.2),
    "gradient_boosting": Cost(5, 7),
    "parts_gp": Cost(0.4, 1.2),
    "stacking": Cost(6, 9),
}
