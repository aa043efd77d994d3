"""Estimate the time to train a source model: counted work, measured rates, corrected by past runs.

The work has two parts. Atoms are read and described. The optimiser makes rows times epochs over
batch size steps; each takes a constant time and a time for every weight of the network. Rates are
seconds of one core, measured with 1,260 and 5,472 features and hidden layers of 128 and 64 to 512
and 256 units. On another machine they may be off by a factor of two or more, until trainings on it
correct them. They do not apply to a GPU.
"""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bandgap.jobs.estimates import LAST_RUNS, START_S, Estimate, finished_jobs
from bandgap.jobs.library import Library
from bandgap.jobs.server_files import ServerFile
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import SourceRequest

ATOM_S = 1.6e-4  # to read and describe it, and to compute the keys of the applicability domain
# Seconds of a step, seconds of a step and weight, rows of a batch:
ADAM = (2e-3, 27e-9, 64)
VARIATIONAL = (4e-3, 64e-9, 50)
SNAPSHOTS = (2e-3, 24e-9, 64)
FISHER_S = 2.5e-10  # of a row and weight
GRAPH_S = 1.2e-4  # of an atom and epoch of MEGNet: 8 s for 2,000 crystals of 34 atoms
TRAINED_SHARE = 0.8  # of the rows; the others are held out
VARIATIONAL_EPOCHS = 3 * 60  # for each of three weights of the KL term
SNAPSHOT_EPOCHS = 30  # burn-in and snapshots
POINTS = 36  # of the descriptor, for every element and for every pair of elements
OE62_ELEMENTS = 16
OE62_ATOMS = 43  # mean over the molecules with GW levels
# Bytes of a molecule: df_62k.json, with 61,489 molecules, has 290 MB.
OE62_BYTES = {".json": 4_700, ".json.gz": 1_600}

_SYMBOL = re.compile(r"[A-Z][a-z]?")


@dataclass(frozen=True)
class Molecules:
    """Numbers of structures, atoms and elements that a source model learns from.

    `guessed` means that they are estimates by the size of the file.
    """

    n: int
    atoms: int
    elements: int
    guessed: bool = False


@dataclass(frozen=True)
class SourceWork:
    """A requested or finished training, as far as its time depends on it.

    `device` is "cpu" or "cuda".
    """

    n: int
    atoms: int
    features: int
    hidden: tuple[int, ...]
    epochs: int
    variational: bool = False
    snapshots: bool = False
    device: str = "cpu"
    graph: bool = False  # whether a graph network learns the features, in the same epochs

    @property
    def weights(self) -> int:
        """Number of weights of the network."""
        widths = (self.features, *self.hidden, 1)
        return sum(a * b for a, b in itertools.pairwise(widths))


@dataclass(frozen=True)
class PastTraining:
    """A finished training of this server, its time, and the server's file that it learned from."""

    work: SourceWork
    seconds: float
    file: str = ""


def estimate_source(work: SourceWork, *, past: Sequence[PastTraining] = ()) -> Estimate | None:
    """Return the time of a training with all epochs; None on a GPU without finished trainings.

    `past` are finished trainings of this server, newest first. Those on the same device and of the
    same kind of network count. For a long training, short ones do not count, as the start of the
    process takes most of their time.
    """
    expected = reference_seconds(work)
    least = 2 * START_S if expected > 2 * START_S else 0.0
    ratios = []
    for run in past:
        run_expected = reference_seconds(run.work)
        is_comparable = (run.work.device, run.work.graph) == (work.device, work.graph)
        if is_comparable and run_expected >= least:
            ratios.append(run.seconds / run_expected)
    ratios = ratios[:LAST_RUNS]
    if ratios:
        return Estimate(expected * median(ratios), "this method here", len(ratios))
    return Estimate(expected, "reference") if work.device == "cpu" else None


def reference_seconds(work: SourceWork) -> float:
    """Return the seconds of a training on one core by the rates alone."""
    weights = work.weights
    rows = TRAINED_SHARE * work.n
    seconds = START_S + work.atoms * ATOM_S + work.n * weights * FISHER_S
    seconds += work.epochs * work.atoms * GRAPH_S if work.graph else 0.0
    passes = [(ADAM, work.epochs)]
    passes += [(VARIATIONAL, VARIATIONAL_EPOCHS)] if work.variational else []
    passes += [(SNAPSHOTS, SNAPSHOT_EPOCHS)] if work.snapshots else []
    for (step, by_weight, batch), epochs in passes:
        seconds += epochs * math.ceil(rows / batch) * (step + by_weight * weights)
    return seconds


def requested_work(
    request: SourceRequest, molecules: Molecules, *, features: int, device: str
) -> SourceWork:
    """Return the work of a request, with every epoch that it allows."""
    return SourceWork(
        molecules.n,
        molecules.atoms,
        features,
        epochs=request.max_epochs,
        device=device,
        graph=request.network == "megnet",
        **_network(request),
    )


def descriptor_features(elements: int) -> int:
    """Return the number of features of the descriptor for a number of elements."""
    return POINTS * (elements + elements * (elements + 1) // 2)


def molecules_of(library: Library, dataset: str) -> Molecules:
    """Return the molecules of a data set of the workspace: its structures with a gap."""
    rows = library.database.rows(
        "SELECT formula, count(*) AS n, total(n_atoms) AS atoms FROM structure"
        " WHERE dataset = ? AND gap_eV IS NOT NULL AND status != 'refused' GROUP BY formula",
        dataset,
    )
    elements = {symbol for row in rows for symbol in _SYMBOL.findall(row["formula"])}
    return Molecules(
        sum(row["n"] for row in rows), round(sum(row["atoms"] for row in rows)), len(elements)
    )


def molecules_in(file: ServerFile, *, past: Sequence[PastTraining] = ()) -> Molecules:
    """Return the molecules in a file of OE62: of the last training from it, or by its size."""
    for run in past:
        if run.file == file.name:
            return Molecules(run.work.n, run.work.atoms, OE62_ELEMENTS)
    suffix = ".json.gz" if file.name.endswith(".gz") else ".json"
    n = max(1, round(file.n_bytes / OE62_BYTES[suffix]))
    return Molecules(n, n * OE62_ATOMS, OE62_ELEMENTS, guessed=True)


def past_trainings(jobs: JobStore, *, limit: int = 60) -> list[PastTraining]:
    """Return the last finished trainings of this server, of all workspaces, without their subjects.

    The work of each is in the result of its job (`jobs.tasks.sources`); results without it are left
    out.
    """
    return [
        PastTraining(
            SourceWork(**result["work"], **_network(SourceRequest.of(payload["request"]))),
            seconds,
            str(payload.get("file", "")),
        )
        for payload, result, seconds in finished_jobs(jobs, "train_source", limit=limit)
        if result.get("work")
    ]


def _network(request: SourceRequest) -> dict[str, Any]:
    return {
        "hidden": request.hidden_widths,
        "variational": request.variational,
        "snapshots": request.snapshots is not None,
    }
