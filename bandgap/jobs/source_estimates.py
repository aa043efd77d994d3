"""How long the training of a source model will take: its work, counted, at measured rates, corrected by earlier ones.

Counted are the atoms that are read and described, and the steps of the optimiser: rows times epochs over the size of a
batch, each of which takes a time of its own and one for every weight of the network. Rates are seconds of one core,
measured with 1,260 and 5,472 features and hidden layers of 128 and 64 to 512 and 256 units. Another machine may be off
by a factor of two or more, until trainings on it correct the rates. They are of a CPU and say nothing of a GPU.
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

ATOM_S = 1.6e-4  # reading, describing, and the keys by which a transfer finds what it shares with the source
ADAM = (2e-3, 27e-9, 64)  # seconds of a step, seconds of it by weight, rows of a batch
VARIATIONAL = (4e-3, 64e-9, 50)
SNAPSHOTS = (2e-3, 24e-9, 64)
FISHER_S = 2.5e-10  # a row and weight
GRAPH_S = 1.2e-4  # an atom and epoch of MEGNet: 8 s for 2,000 crystals with 34 atoms each
TRAINED_SHARE = 0.8  # of the rows; the others are held out
VARIATIONAL_EPOCHS, SNAPSHOT_EPOCHS = (
    3 * 60,
    30,
)  # three weights of KL are tried; burn-in and snapshots
POINTS = 36  # of the descriptor, for every element and for every pair of elements
OE62_ELEMENTS, OE62_ATOMS = 16, 43  # atoms: mean of the molecules with GW levels
OE62_BYTES = {
    ".json": 4_700,
    ".json.gz": 1_600,
}  # a molecule: df_62k.json, 61,489 molecules, has 290 MB

_SYMBOL = re.compile(r"[A-Z][a-z]?")


@dataclass(frozen=True)
class Molecules:
    """What a source model learns from: how many structures, atoms and elements; `guessed` where nobody counted yet."""

    n: int
    atoms: int
    elements: int
    guessed: bool = False


@dataclass(frozen=True)
class SourceWork:
    """What a training is asked to do, or has done, as far as its time depends on it; `device` is "cpu" or "cuda"."""

    n: int
    atoms: int
    features: int
    hidden: tuple[int, ...]
    epochs: int
    variational: bool = False
    snapshots: bool = False
    device: str = "cpu"
    graph: bool = False  # whether a graph network learns the features, in each of so many epochs

    @property
    def weights(self) -> int:
        """Number of weights of the network."""
        widths = (self.features, *self.hidden, 1)
        return sum(a * b for a, b in itertools.pairwise(widths))


@dataclass(frozen=True)
class PastTraining:
    """A finished training of this server, how long it took, and the file of the server that it learned from."""

    work: SourceWork
    seconds: float
    file: str = ""


def estimate_source(work: SourceWork, *, past: Sequence[PastTraining] = ()) -> Estimate | None:
    """Return the time of a training if every epoch is needed; None on a GPU on which none was finished yet.

    `past` are finished trainings of this server, the newest first, of which those on the same device and of the same
    kind of network count; short ones, of which the start of the process took the most, say nothing of a long one.
    """
    expected = reference_seconds(work)
    alike = [run for run in past if (run.work.device, run.work.graph) == (work.device, work.graph)]
    same = [(run, reference_seconds(run.work)) for run in alike]
    least = 2 * START_S if expected > 2 * START_S else 0.0
    ratios = [run.seconds / known for run, known in same if known >= least][:LAST_RUNS]
    if ratios:
        return Estimate(expected * median(ratios), "this method here", len(ratios))
    return Estimate(expected, "reference") if work.device == "cpu" else None


def reference_seconds(work: SourceWork) -> float:
    """Return the seconds of a training on one core by the rates alone."""
    weights, rows = work.weights, TRAINED_SHARE * work.n
    seconds = START_S + work.atoms * ATOM_S + work.n * weights * FISHER_S
    seconds += work.epochs * work.atoms * GRAPH_S if work.graph else 0.0
    passes = [(ADAM, work.epochs)]
    passes += [(VARIATIONAL, VARIATIONAL_EPOCHS)] if work.variational else []
    passes += [(SNAPSHOTS, SNAPSHOT_EPOCHS)] if work.snapshots else []
    for (step, by_weight, batch), epochs in passes:
        seconds += epochs * math.ceil(rows / batch) * (step + by_weight * weights)
    return seconds


def work_asked(
    request: SourceRequest, given: Molecules, *, features: int, device: str
) -> SourceWork:
    """Return what a request asks for, with every epoch that it allows."""
    return SourceWork(
        given.n,
        given.atoms,
        features,
        epochs=request.max_epochs,
        device=device,
        graph=request.network == "megnet",
        **_network(request),
    )


def own_features(elements: int) -> int:
    """Return the features of the descriptor that is made for so many elements."""
    return POINTS * (elements + elements * (elements + 1) // 2)


def molecules_of(library: Library, dataset: str) -> Molecules:
    """Return what a data set of the workspace gives to learn from: its structures with a gap."""
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
    """Return what a file of OE62 gives to learn from: as the last training from it found, else guessed by its size."""
    for run in past:
        if run.file == file.name:
            return Molecules(run.work.n, run.work.atoms, OE62_ELEMENTS)
    suffix = ".json.gz" if file.name.endswith(".gz") else ".json"
    n = max(1, round(file.n_bytes / OE62_BYTES[suffix]))
    return Molecules(n, n * OE62_ATOMS, OE62_ELEMENTS, guessed=True)


def past_trainings(jobs: JobStore, *, limit: int = 60) -> list[PastTraining]:
    """Return the times of the last finished trainings of this server, of all workspaces, without what they were about.

    What each has done is in the result of its job, as `jobs.tasks.sources` notes it; older ones without are left out.
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
