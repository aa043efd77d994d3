"""Accuracy on crystals of any elements: perovskites with HSE gaps, inorganic and organic crystals with PBE gaps.

Our methods without a source have the descriptor of the set (`descriptor_for_labelled`). A method that transfers starts on the
perovskites from a network that is trained once on the inorganic crystals, on the organic crystals from the shipped
source on molecules, and takes no part on the inorganic ones. The peers of `crystal_peers.py` see the same splits. The
data are not shipped: a folder with the files named here is needed. A kept fit counts while what it was made of is the
same: data, number of test rows, descriptor, and source where it transfers.
"""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from bandgap.datasets.demo import demo_source_folder
from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.labels import match_labels, read_labels
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import LabelledSet, Table, elements_of, learnable
from bandgap.descriptors import PRESETS, DescriptorConfig
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import crps_mixture_each
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress, progress_of
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import kl_weights_to_try
from bandgap.posterior import PredictiveDraws
from bandgap.runs.compared_fits import ComparedFit, append_fit, read_fits
from bandgap.runs.comparison import heldout_figures
from bandgap.runs.fitting import fit_members
from bandgap.runs.origin import descriptor_taken
from bandgap.sources.model import SourceConfig, SourceModel
from bandgap.sources.new_elements import grown_members
from bandgap.sources.no_source import descriptor_for_labelled, no_source
from bandgap.sources.proposed import Target, propose
from bandgap.sources.sets import open_sources
from bandgap.sources.stored import source_fingerprint
from bandgap.sources.training import train_source_folder
from bandgap.storage.result_folders import check_table_folder
from bandgap.structures import StructureRecord, read_paths
from bandgap.transfer import TargetData, get_method
from benchmarks.crystal_facts import facts_of, tell_of_others
from benchmarks.crystal_peers import PEERS, Peer
from benchmarks.kept_parts import file_digest, kept_source
from benchmarks.paired import append_errors

LABEL: Final = "gap_eV"


@dataclass(frozen=True)
class CrystalSet:
    """A set of labelled crystals: its files, level of theory, sizes of the training set, and test rows.

    Gaps stand in a table, or where `table` is "" in the structure files. Methods that transfer start from `source`:
    a network trained on the inorganic crystals, the shipped one on molecules, or there is none and they take no part.
    """

    structures: str
    table: str
    level_of_theory: str
    sizes: tuple[int, ...]
    n_test: int
    source: Literal["inorganic", "molecules", ""] = ""

    @property
    def proposed(self) -> str:
        """The method without levels that is proposed for the set: a transfer where the shipped molecules know most."""
        return propose(
            Target({}, self.level_of_theory), transfers=self.source == "molecules"
        ).method


SETS: Final[Mapping[str, CrystalSet]] = {
    "perovskites": CrystalSet(
        "dj_perovskite_hse/cifs.zip",
        "dj_perovskite_hse/dj_perovskite_hse.csv",
        "HSE",
        (100, 250),
        103,
        "inorganic",
    ),
    "inorganic": CrystalSet(
        "mp_crystals_pbe/cifs.zip", "mp_crystals_pbe/mp_crystals_pbe.csv", "PBE", (200, 1000), 700
    ),
    "organic": CrystalSet(
        "omdb_crystal_gap/omdb_crystal_gap_etkdg.extxyz.gz", "", "PBE", (100,), 700, "molecules"
    ),
}
METHODS: Final = (
    "stacking",
    "parts_gp",
    "gaussian_process",
    "kernel_ridge",
    "random_forest",
    "gradient_boosting",
)
PRESET: Final = "any-elements"  # of the source
SOURCE_SET: Final = "inorganic"
WITH_EXTRAS: Final = SourceConfig(
    variational=kl_weights_to_try(), snapshots=SnapshotConfig()
)  # for every method


@dataclass(frozen=True)
class CrystalsBenchmark:
    """Our methods, the sets, seeds, whether peers take part, and how the source of methods that transfer is trained."""

    methods: tuple[str, ...] = METHODS
    sets: tuple[str, ...] = tuple(SETS)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    sizes: tuple[int, ...] = ()  # in place of those of the sets
    n_test: int | None = None  # likewise
    peers: bool = True
    source: SourceConfig = WITH_EXTRAS
    source_seed: int = 0

    def __post_init__(self) -> None:
        """Raise InputError for a set, ConfigError for a method that there is not."""
        for name in self.methods:
            get_method(name)
        for name in self.sets:
            if name not in SETS:
                raise InputError(f"set {name!r}. Accepted: {', '.join(SETS)}.")


@dataclass(frozen=True)
class _Job:
    """What every fit of a call needs."""

    data: Path
    out: Path
    config: CrystalsBenchmark
    settings: Mapping[str, Any]  # of descriptors: cache, n_jobs
    progress: Progress


@dataclass(frozen=True)
class _Entrant:
    """Who takes part: the descriptor, and a fit from training and test rows and a seed to the test predictions."""

    descriptor: DescriptorConfig
    predict: Callable[[Table, Table, int], PredictiveDraws]
    source: str = ""  # its fingerprint, where the entrant transfers


def run_crystals(
    data: Path,
    out: Path,
    config: CrystalsBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[tuple[str, ComparedFit]]:
    """Yield every fit with its set as it comes, those of an earlier call in `out` first.

    Raises InputError before any work when a file is missing in `data`.
    """
    trained = any(SETS[name].source == SOURCE_SET for name in config.sets) and any(
        get_method(name).transfers for name in config.methods
    )
    for name in (*config.sets, *([SOURCE_SET] if trained else [])):
        for file in filter(None, (SETS[name].structures, SETS[name].table)):
            if not (data / file).is_file():
                raise InputError(f"{data} has no {file}. Give the folder that holds the data sets.")
    check_table_folder(out, *(f"{name}.jsonl" for name in SETS), "source")
    out.mkdir(parents=True, exist_ok=True)
    job = _Job(data, out, config, {"cache": cache, "n_jobs": n_jobs}, progress)
    for name in config.sets:
        for fit in _fits_on(name, job):
            yield name, fit


def errors_file(out: Path, name: str) -> Path:
    """Return where the errors and the CRPS of every fit on a set are (`paired`)."""
    return out / f"{name}-errors.jsonl"


def entrants(config: CrystalsBenchmark, where: str) -> list[str]:
    """Return who takes part on a set: our methods, and the peers whose packages are installed."""
    own = [name for name in config.methods if not get_method(name).transfers or SETS[where].source]
    return own + [peer.name for peer in PEERS if config.peers and peer.installed]


def _fits_on(name: str, job: _Job) -> Iterator[ComparedFit]:
    file, sizes = job.out / f"{name}.jsonl", job.config.sizes or SETS[name].sizes
    kept = {
        (fit.method, fit.n, fit.seed): fit for fit in read_fits(file)
    }  # the last ones, as errors are
    labelled = _labelled(SETS[name], job)
    for who in entrants(job.config, name):
        wanted = [(who, n, seed) for n in sizes for seed in job.config.seeds]
        entrant = _entrant(who, labelled, SETS[name], job)
        made_of = facts_of(
            labelled,
            job.config.n_test or SETS[name].n_test,
            entrant.descriptor,
            source=entrant.source,
        )
        done = {key: kept[key] for key in wanted if key in kept and kept[key].made_of == made_of}
        tell_of_others(
            [kept[key] for key in wanted if key in kept and key not in done], made_of, file
        )
        yield from done.values()
        left = [key for key in wanted if key not in done]
        if not left:
            continue
        for fit, errors_eV, crps_eV in _fits_of(entrant, left, labelled, made_of, job):
            append_errors(errors_file(job.out, name), who, fit.n, fit.seed, errors_eV, crps_eV)
            append_fit(file, fit)
            yield fit


def _fits_of(
    entrant: _Entrant,
    wanted: Sequence[tuple[str, int, int]],
    labelled: LabelledSet,
    made_of: Mapping[str, Any],
    job: _Job,
) -> Iterator[tuple[ComparedFit, dict[str, float], dict[str, float]]]:
    """Yield the fits of one entrant, with their errors and CRPS in eV by id, on splits of all labelled structures.

    What its descriptor does not take it does without.
    """
    who, n_test = wanted[0][0], made_of["n_test"]
    note = progress_of(who, job.progress)
    table = learnable(
        labelled.records,
        labelled.gaps_eV,
        descriptor=entrant.descriptor,
        progress=note,
        **job.settings,
    )
    ids = [record.id for record in labelled.records]
    row = {name: k for k, name in enumerate(table.ids)}
    for position, (_, n, seed) in enumerate(wanted):
        note(Update("comparing", position, len(wanted), message=f"n = {n}, seed {seed}"))
        split = permuted_split(ids, n_test=n_test, n_train=n, seed=seed)
        parts = [[row[ids[i]] for i in rows if ids[i] in row] for rows in (split.train, split.test)]
        train, test = (table.rows(np.array(rows, dtype=np.int64)) for rows in parts)
        started = time.perf_counter()
        draws = entrant.predict(train, test, seed)
        seconds = time.perf_counter() - started
        lost = n + n_test - len(train) - len(test)
        warnings = (f"{lost} of {n + n_test} structures cannot be described.",) if lost else ()
        errors = draws.flat_means_eV.mean(axis=0) - test.gaps_eV
        figures = heldout_figures(draws, test.gaps_eV)
        fit = ComparedFit(who, n, seed, figures, seconds, warnings=warnings, made_of=made_of)
        scores = crps_mixture_each(test.gaps_eV, draws.centres_eV, sds=draws.sds_eV)
        errors_eV, crps_eV = (
            dict(zip(test.ids, values.tolist(), strict=True)) for values in (errors, scores)
        )
        yield fit, errors_eV, crps_eV


def _entrant(who: str, labelled: LabelledSet, where: CrystalSet, job: _Job) -> _Entrant:
    elements = tuple(sorted(set().union(*(elements_of(record) for record in labelled.records))))
    peer = next((peer for peer in PEERS if peer.name == who), None)
    if peer is not None:
        return _Entrant(peer.descriptor(elements), functools.partial(_peer_draws, peer))
    if get_method(who).transfers:
        folder = _trained_source(job) if where.source == SOURCE_SET else demo_source_folder()
        members = open_sources(folder).load(verify=False)
        own = next(iter(members[0].values())).descriptor
        taken = descriptor_taken(own, get_method(who), elements) or own
        weights = fingerprint(
            [source_fingerprint(model) for member in members for model in member.values()]
        )
        return _Entrant(taken, functools.partial(_own_draws, who, taken, members), weights)
    descriptor = descriptor_for_labelled(labelled.records, labelled.gaps_eV)
    return _Entrant(descriptor, functools.partial(_own_draws, who, descriptor, ()))


def _own_draws(
    name: str,
    descriptor: DescriptorConfig,
    members: Sequence[Mapping[str, SourceModel]],
    train: Table,
    test: Table,
    seed: int,
) -> PredictiveDraws:
    """Fit one of our methods on a descriptor, from the source's networks (grown by new elements) or without any."""
    method, data = get_method(name), TargetData(train.features, train.gaps_eV)
    start = grown_members(members, descriptor, data.features) or [
        {"none": no_source(descriptor, data.features, data.gaps_eV)}
    ]
    posterior = fit_members(
        method, start, data, method.configure({}), head=next(iter(start[0])), seed=seed
    )
    return posterior.predictive_draws(test.features)


def _peer_draws(peer: Peer, train: Table, test: Table, seed: int) -> PredictiveDraws:
    mean, sd = peer.fit(train.features, train.gaps_eV, test.features, seed)
    return PredictiveDraws(mean[None, None], mean[None], sd[None])


def _trained_source(job: _Job) -> Path:
    """Return the folder of the source on the inorganic crystals, trained where none was made of the same."""
    where = SETS[SOURCE_SET]

    def train() -> Path:
        labelled = _labelled(where, job)
        return train_source_folder(
            labelled.records,
            labelled.gaps_eV,
            descriptor=PRESETS[PRESET],
            config=job.config.source,
            out=job.out / "source",
            seed=job.config.source_seed,
            level_of_theory=labelled.level_of_theory,
            progress=progress_of("source", job.progress),
            **job.settings,
        )

    made_of = {
        "data": [file_digest(job.data / file) for file in (where.structures, where.table) if file],
        "descriptor": fingerprint(PRESETS[PRESET]),
        "config": to_dict(job.config.source),
        "seed": job.config.source_seed,
    }
    return kept_source(job.out / "source", made_of, train)


def _labelled(where: CrystalSet, job: _Job) -> LabelledSet:
    """Return the structures of a set that can be used and have a gap."""
    records: list[StructureRecord] = read_paths(
        [job.data / where.structures], progress=job.progress
    )
    if where.table:
        labels = read_labels(
            job.data / where.table, column=LABEL, level_of_theory=where.level_of_theory
        )
        gaps = match_labels([r.id for r in records], [r.file for r in records], labels).gaps
    else:
        gaps = labels_from_info(records, LABEL, unit="eV")
    usable = [k for k, r in enumerate(records) if r.status != "refused" and np.isfinite(gaps[k])]
    return LabelledSet([records[k] for k in usable], gaps[usable], where.level_of_theory)
