"""Accuracy on crystals of any elements.

There are four sets: perovskites with HSE gaps, inorganic and organic crystals with PBE gaps, and
crystals with measured gaps. Methods without a source use the descriptor of the set
(`descriptor_for_labelled`). Transfer methods start from the shipped source that the call names,
else from a network on the inorganic crystals (perovskites) or from the shipped source on molecules
(organic crystals), and are left out on the other sets. The peers of
`crystal_peers.py` are fitted on the same splits.

The data are not shipped: a folder with the files named here is needed. A stored fit is reused if
data, number of test rows, descriptor and source are unchanged.
"""

import csv
import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from bandgap.datasets.demo_files import demo_source_folder
from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.labels import match_labels, read_labels
from bandgap.datasets.shipped_models import folder_of_source
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import LabelledSet, Table, elements_of, learnable
from bandgap.descriptors import PRESETS, DescriptorConfig, descriptor_for
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, METHOD, MOLECULES
from bandgap.descriptors.potentials import (
    FOR_DATA_SETS,
    NONE,
    POTENTIALS,
    check_potential,
    check_second_potential,
    installed_extras,
)
from bandgap.evaluation.metrics import crps_mixture_each
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress, progress_of
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import kl_weights_to_try
from bandgap.posterior import PredictiveDraws
from bandgap.runs.compared_fits import ComparedFit, append_fit, summary
from bandgap.runs.comparison import entrant_of, heldout_figures
from bandgap.runs.origin import descriptor_taken
from bandgap.sources.measured_errors import (
    CrystalKind,
    MeasuredError,
    gain_of_source,
    read_table,
)
from bandgap.sources.model import SourceConfig
from bandgap.sources.no_source import descriptor_for_labelled
from bandgap.sources.overlap import load_arrays
from bandgap.sources.proposed import Target, propose
from bandgap.sources.sets import open_sources
from bandgap.sources.training import train_source_folder
from bandgap.storage.result_folders import check_table_folder
from bandgap.structures import StructureRecord, read_paths
from bandgap.structures.near_copies import formula_key
from bandgap.transfer import Method, TargetData, get_method
from benchmarks.crystal_facts import facts_of, reusable_fits
from benchmarks.crystal_peers import PEERS, Peer
from benchmarks.kept_parts import file_digest, kept_source
from benchmarks.method_start import MethodStart
from benchmarks.paired import append_errors

LABEL: Final = "gap_eV"


@dataclass(frozen=True)
class CrystalSet:
    """A set of labelled crystals: files, level of theory, training sizes, number of test rows.

    Gaps are in the file `table`, or in the structure files if `table` is "". `source` is the source
    of transfer methods, "" if they are left out. `levels` are the electron levels that methods may
    get; methods with others are left out. `kind` is that of the table of measured errors.
    """

    structures: str
    table: str
    level_of_theory: str
    sizes: tuple[int, ...]
    n_test: int
    source: Literal["inorganic", "molecules", ""] = ""
    levels: tuple[ElectronLevels, ...] = ()
    kind: CrystalKind = "crystals of any elements, PBE"

    @property
    def proposed(self) -> str:
        """The method without electron levels that the dashboard proposes for the set."""
        gain = gain_of_source(self.kind, potentials=installed_extras())
        transfers = self.source == "molecules" or gain is not None
        return propose(Target({}, self.level_of_theory), transfers=transfers).method

    def proposed_among(self, names: Collection[str]) -> str:
        """Return the proposed method, with its electron levels if it was fitted with them."""
        suffixes = ("+both", "+levels", "+molecules", "+hueckel") if self.levels else ()
        with_levels = (f"{self.proposed}{suffix}" for suffix in suffixes)
        return next((name for name in with_levels if name in names), self.proposed)


SETS: Final[Mapping[str, CrystalSet]] = {
    "perovskites": CrystalSet(
        "dj_perovskite_hse/cifs.zip",
        "dj_perovskite_hse/dj_perovskite_hse.csv",
        "HSE",
        (100, 250),
        103,
        "inorganic",
        (MOLECULES, HUECKEL),
        kind="lead-iodide perovskites with hybrid gaps",
    ),
    "inorganic": CrystalSet(
        "mp_crystals_pbe/cifs.zip", "mp_crystals_pbe/mp_crystals_pbe.csv", "PBE", (200, 1000), 700
    ),
    "organic": CrystalSet(
        "omdb_crystal_gap/omdb_crystal_gap_etkdg.extxyz.gz",
        "",
        "PBE",
        (100,),
        700,
        "molecules",
        (METHOD, HUECKEL, BOTH),
        kind="PBE gaps of organic crystals, described by their molecules",
    ),
    "measured": CrystalSet(
        "expt_gap_mp/crystals.extxyz.gz",
        "",
        "experiment",
        (20, 50, 100, 250),
        100,
        kind="crystals of any elements, measured gaps",
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
MIN_SPLITS: Final = 3  # of a row in the table of measured errors
PRESET: Final = "any-elements"  # Of the source.
SOURCE_SET: Final = "inorganic"
# In the table of measured errors; the source of inorganic crystals is not the shipped one.
SOURCE_NAMES: Final = {"molecules": "demo", SOURCE_SET: "inorganic, trained by the benchmark"}
# Has what every transfer method needs.
WITH_EXTRAS: Final = SourceConfig(variational=kl_weights_to_try(), snapshots=SnapshotConfig())


@dataclass(frozen=True)
class CrystalsBenchmark:
    """Methods, sets, seeds, whether peers are compared, and the training of the source.

    `potentials` are up to two pretrained potentials for methods without a source. If None, they are
    those that are installed, as in a run. With `bonds` these methods also get the block of this
    name. Transfer methods start from the shipped source `shipped`, "" for that of the set. With
    `unseen` structures whose formula is in the data of a shipped model are left out.
    """

    methods: tuple[str, ...] = METHODS
    sets: tuple[str, ...] = tuple(SETS)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    sizes: tuple[int, ...] = ()  # Empty: those of the sets.
    n_test: int | None = None  # None: those of the sets.
    peers: bool = True
    source: SourceConfig = WITH_EXTRAS
    source_seed: int = 0
    potentials: tuple[str, ...] | None = None
    bonds: bool = False
    shipped: str = ""
    unseen: bool = False

    def __post_init__(self) -> None:
        """Raise InputError for an unknown set, ConfigError for an unknown method or potential."""
        if self.potentials is not None:
            check_potentials(self.potentials)
        for name in self.methods:
            _entrant_method(name)
        for name in self.sets:
            if name not in SETS:
                raise InputError(f"set {name!r}. Accepted: {', '.join(SETS)}.")


@dataclass(frozen=True)
class CrystalsJob:
    """Inputs of all fits of a call."""

    data: Path
    out: Path
    config: CrystalsBenchmark
    settings: Mapping[str, Any]  # Of descriptors: cache, n_jobs.
    progress: Progress


@dataclass(frozen=True)
class Entrant:
    """A method or peer: its descriptor, and a function that fits it and predicts the test rows."""

    descriptor: DescriptorConfig
    predict: Callable[[Table, Table, int], PredictiveDraws]
    source: str = ""  # Fingerprint of the source of a transfer method.


def run_crystals(
    data: Path,
    out: Path,
    config: CrystalsBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[tuple[str, ComparedFit]]:
    """Yield each fit with the name of its set. Stored fits of `out` come first.

    Raises
    ------
    InputError
        If a file is missing in `data`, before any fit.
    """
    trains_source = (
        not config.shipped
        and any(SETS[name].source == SOURCE_SET for name in config.sets)
        and any(_entrant_method(name).transfers for name in config.methods)
    )
    for name in (*config.sets, *([SOURCE_SET] if trains_source else [])):
        check_files(data, SETS[name])
    check_table_folder(out, *(f"{name}.jsonl" for name in SETS), "source")
    out.mkdir(parents=True, exist_ok=True)
    job = CrystalsJob(data, out, config, {"cache": cache, "n_jobs": n_jobs}, progress)
    for name in config.sets:
        for fit in _fits_on(name, job):
            yield name, fit


def check_files(data: Path, crystal_set: CrystalSet) -> None:
    """Raise InputError if a file of a set is missing in `data`."""
    for file in filter(None, (crystal_set.structures, crystal_set.table)):
        if not (data / file).is_file():
            raise InputError(f"{data} has no {file}. Give the folder that contains the data sets.")


def errors_file(out: Path, name: str) -> Path:
    """Return the file with errors and CRPS of all fits on a set (`paired`)."""
    return out / f"{name}-errors.jsonl"


def measured_rows(
    name: str,
    fits: Sequence[ComparedFit],
    config: CrystalsBenchmark,
    *,
    date: str,
    command: str,
) -> list[MeasuredError]:
    """Return the rows of the package's table of measured errors from the fits of a set.

    Peers, and methods with fewer than three splits, are left out.
    """
    crystal_set = SETS[name]
    peers = [peer.name for peer in PEERS]
    return rows_of_fits(
        [fit for fit in fits if fit.method not in peers],
        kind=crystal_set.kind,
        n_test=config.n_test or crystal_set.n_test,
        source=config.shipped or SOURCE_NAMES.get(crystal_set.source, ""),
        potentials=config.potentials,
        date=date,
        command=command,
    )


def rows_of_fits(
    fits: Sequence[ComparedFit],
    *,
    kind: CrystalKind,
    n_test: int,
    source: str,
    potentials: Sequence[str] | None,
    date: str,
    command: str,
) -> list[MeasuredError]:
    """Return the rows of the table of measured errors, of methods with three splits or more.

    `source` is that of transfer methods, and `potentials` are those of the other methods, None if
    they are those that are installed.
    """
    rows = []
    for method, by_size in summary(fits, "rmse_eV").items():
        entrant = entrant_of(method)
        transfers = _entrant_method(method).transfers
        names = _potentials_of_source(source) if transfers else _used_potentials(potentials)
        extras = [POTENTIALS[name].extra for name in names]
        extras += _extras_of_levels(entrant.levels)
        for n, (rmse_eV, error_eV) in by_size.items():
            splits = len({fit.seed for fit in fits if (fit.method, fit.n) == (method, n)})
            if splits < MIN_SPLITS:
                continue
            rows.append(
                MeasuredError(
                    kind=kind,
                    n=n,
                    n_test=n_test,
                    splits=str(splits),
                    source=source.removesuffix("-composition") if transfers else "none",
                    extras=" ".join(extras),
                    levels=entrant.levels,
                    method=entrant.method,
                    rmse_eV=round(rmse_eV, 3),
                    standard_error_eV=f"{error_eV:.3f}",
                    lowest_eV="",
                    highest_eV="",
                    date=date,
                    command=command,
                )
            )
    return rows


def write_rows(path: Path, new_rows: Iterable[MeasuredError]) -> None:
    """Write rows into a table of measured errors.

    They replace those of the same setting, number of test rows and method. Rows with
    another number of held-out structures are of other splits, and stay.
    """
    rows = list(new_rows)
    replaced = {(*row.setting, row.n_test, row.method) for row in rows}
    stored = read_table(path) if path.exists() else ()
    table = [row for row in stored if (*row.setting, row.n_test, row.method) not in replaced] + rows
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, [field.name for field in fields(MeasuredError)], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(asdict(row) for row in table)


def _extras_of_levels(levels: ElectronLevels) -> list[str]:
    """Return the extras that compute electron levels, nothing for "none"."""
    return [] if levels in ("none", HUECKEL) else ["xtb"]


def _used_potentials(potentials: Sequence[str] | None) -> list[str]:
    """Return the potentials in the descriptors of methods without a source."""
    if potentials is not None:
        return [name for name in potentials if name != NONE]
    return [potential.name for potential in FOR_DATA_SETS if potential.is_installed]


def _potentials_of_source(source: str) -> list[str]:
    """Return the potential in the descriptor of a shipped source; none for another source."""
    folder = folder_of_source(source or NONE)
    if folder is None or not folder.exists():
        return []
    model = next(iter(open_sources(folder).load(verify=False, extras=False)[0].values()))
    return [name for name in (model.descriptor.potential,) if name != NONE]


def entrants(config: CrystalsBenchmark, set_name: str) -> list[str]:
    """Return the methods of a set, and the peers whose packages are installed.

    Methods that need a source or electron levels are left out where the set has none.
    """
    crystal_set = SETS[set_name]
    methods = [
        name
        for name in config.methods
        if (crystal_set.source or config.shipped or not _entrant_method(name).transfers)
        and entrant_of(name).levels in ("none", *crystal_set.levels)
    ]
    return methods + [peer.name for peer in PEERS if config.peers and peer.installed]


def _fits_on(name: str, job: CrystalsJob) -> Iterator[ComparedFit]:
    file = job.out / f"{name}.jsonl"
    sizes = job.config.sizes or SETS[name].sizes
    labelled = labelled_of(SETS[name], job.data, job.progress)
    if job.config.unseen:
        labelled = without_formulas_of(labelled, folder_of_source(job.config.shipped))
    for entrant_name in entrants(job.config, name):
        keys = [(entrant_name, n, seed) for n in sizes for seed in job.config.seeds]
        entrant = entrant_on(entrant_name, labelled, SETS[name], job)
        made_of = facts_of(
            labelled,
            job.config.n_test or SETS[name].n_test,
            entrant.descriptor,
            source=entrant.source,
        )
        done = reusable_fits(file, keys, made_of)
        yield from done.values()
        missing_keys = [key for key in keys if key not in done]
        if not missing_keys:
            continue
        for fit, errors_eV, crps_eV in _fits_of(entrant, missing_keys, labelled, made_of, job):
            append_errors(
                errors_file(job.out, name), entrant_name, fit.n, fit.seed, errors_eV, crps_eV
            )
            append_fit(file, fit)
            yield fit


def _fits_of(
    entrant: Entrant,
    keys: Sequence[tuple[str, int, int]],
    labelled: LabelledSet,
    made_of: Mapping[str, Any],
    job: CrystalsJob,
) -> Iterator[tuple[ComparedFit, dict[str, float], dict[str, float]]]:
    """Yield the fits of a method or peer, with errors and CRPS in eV by id.

    Splits are of all labelled structures. Structures that cannot be described are left out.
    """
    entrant_name = keys[0][0]
    n_test = made_of["n_test"]
    note = progress_of(entrant_name, job.progress)
    table = learnable(
        labelled.records,
        labelled.gaps_eV,
        descriptor=entrant.descriptor,
        progress=note,
        **job.settings,
    )
    for position, (_, n, seed) in enumerate(keys):
        note(Update("comparing", position, len(keys), message=f"n = {n}, seed {seed}"))
        train, test = parts_of(table, labelled, n=n, n_test=n_test, seed=seed)
        started = time.perf_counter()
        draws = entrant.predict(train, test, seed)
        seconds = time.perf_counter() - started
        n_missing = n + n_test - len(train) - len(test)
        warnings = (
            (f"{n_missing} of {n + n_test} structures cannot be described.",) if n_missing else ()
        )
        errors = draws.flat_means_eV.mean(axis=0) - test.gaps_eV
        figures = heldout_figures(draws, test.gaps_eV)
        fit = ComparedFit(
            entrant_name, n, seed, figures, seconds, warnings=warnings, made_of=made_of
        )
        scores = crps_mixture_each(test.gaps_eV, draws.centres_eV, sds=draws.sds_eV)
        errors_eV, crps_eV = (
            dict(zip(test.ids, values.tolist(), strict=True)) for values in (errors, scores)
        )
        yield fit, errors_eV, crps_eV


def parts_of(
    table: Table, labelled: LabelledSet, *, n: int, n_test: int, seed: int
) -> tuple[Table, Table]:
    """Return the described training and test structures of a split of all labelled ones."""
    ids = [record.id for record in labelled.records]
    row = {name: k for k, name in enumerate(table.ids)}
    split = permuted_split(ids, n_test=n_test, n_train=n, seed=seed)
    parts = [[row[ids[i]] for i in rows if ids[i] in row] for rows in (split.train, split.test)]
    train, test = (table.rows(np.array(rows, dtype=np.int64)) for rows in parts)
    return train, test


def entrant_on(
    name: str, labelled: LabelledSet, crystal_set: CrystalSet, job: CrystalsJob
) -> Entrant:
    elements = all_elements(labelled)
    peer = next((peer for peer in PEERS if peer.name == name), None)
    if peer is not None:
        return Entrant(peer.descriptor(elements), functools.partial(_peer_draws, peer))
    method = _entrant_method(name)
    levels = entrant_of(name).levels
    if method.transfers:
        members = open_sources(_source_of(crystal_set, job)).load(verify=False)
        source_descriptor = next(iter(members[0].values())).descriptor
        descriptor = descriptor_taken(source_descriptor, method, elements) or source_descriptor
        start = MethodStart(descriptor, members)
        return Entrant(
            replace(descriptor, levels=levels),
            functools.partial(_own_draws, method, start),
            start.fingerprint,
        )
    descriptor = descriptor_without_source(labelled, job.config.potentials)
    descriptor = replace(descriptor, bonds=job.config.bonds)
    return Entrant(
        replace(descriptor, levels=levels),
        functools.partial(_own_draws, method, MethodStart(descriptor)),
    )


def all_elements(labelled: LabelledSet) -> tuple[str, ...]:
    """Return the elements of all structures, sorted."""
    return tuple(sorted(set().union(*(elements_of(record) for record in labelled.records))))


def descriptor_without_source(
    labelled: LabelledSet, potentials: Sequence[str] | None
) -> DescriptorConfig:
    """Return the descriptor of methods without a source, with these potentials.

    If `potentials` is None, they are those that are installed and know the elements, as in a run.
    """
    if potentials is None:
        return descriptor_for_labelled(labelled.records, labelled.gaps_eV)
    first, second = _two_potentials(potentials)
    return descriptor_for(all_elements(labelled), potential=first, second_potential=second)


def check_potentials(names: Sequence[str]) -> None:
    """Raise ConfigError for unknown potentials, for more than two and for the same one twice."""
    first, second = _two_potentials(names)
    check_potential(first)
    if second != NONE:
        check_second_potential(second, first=first)


def _two_potentials(names: Sequence[str]) -> tuple[str, str]:
    """Return two names, "none" for missing ones; raise ConfigError if there are more."""
    if len(names) > 2:
        raise ConfigError(f"{len(names)} potentials: {', '.join(names)}. Accepted: up to two.")
    first, second = [*names, NONE, NONE][:2]
    return first, second


def _entrant_method(name: str) -> Method:
    """Return the method of NAME, or of NAME with electron levels."""
    return get_method(entrant_of(name).method)


def _own_draws(
    method: Method, start: MethodStart, train: Table, test: Table, seed: int
) -> PredictiveDraws:
    posterior = start.posterior(method, TargetData(train.features, train.gaps_eV), seed=seed)
    return posterior.predictive_draws(test.features)


def _peer_draws(peer: Peer, train: Table, test: Table, seed: int) -> PredictiveDraws:
    mean, sd = peer.fit(train.features, train.gaps_eV, test.features, seed)
    return PredictiveDraws(mean[None, None], mean[None], sd[None])


def _source_of(crystal_set: CrystalSet, job: CrystalsJob) -> Path:
    """Return the folder of the source of transfer methods."""
    if job.config.shipped:
        return folder_of_source(job.config.shipped) or Path()
    return _trained_source(job) if crystal_set.source == SOURCE_SET else demo_source_folder()


def _trained_source(job: CrystalsJob) -> Path:
    """Return the folder of the source on inorganic crystals; train it if its inputs changed."""
    crystal_set = SETS[SOURCE_SET]

    def train() -> Path:
        labelled = labelled_of(crystal_set, job.data, job.progress)
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
        "data": [
            file_digest(job.data / file)
            for file in (crystal_set.structures, crystal_set.table)
            if file
        ],
        "descriptor": fingerprint(PRESETS[PRESET]),
        "config": to_dict(job.config.source),
        "seed": job.config.source_seed,
    }
    return kept_source(job.out / "source", made_of, train)


def without_formulas_of(labelled: LabelledSet, model: Path | None) -> LabelledSet:
    """Return the structures whose formula is not in the data of a shipped model."""
    arrays = None if model is None else load_arrays(model)
    if arrays is None or "formulas" not in arrays:
        raise InputError("Only a shipped model stores its formulas. Accepted: --source pbe.")
    formulas = set(arrays["formulas"].view(np.uint64).tolist())
    rows = [k for k, record in enumerate(labelled.records) if formula_key(record) not in formulas]
    records = [labelled.records[k] for k in rows]
    return replace(labelled, records=records, gaps_eV=labelled.gaps_eV[rows])


def labelled_of(crystal_set: CrystalSet, data: Path, progress: Progress) -> LabelledSet:
    """Return the usable structures of a set that have a gap."""
    records: list[StructureRecord] = read_paths([data / crystal_set.structures], progress=progress)
    if crystal_set.table:
        labels = read_labels(
            data / crystal_set.table, column=LABEL, level_of_theory=crystal_set.level_of_theory
        )
        gaps = match_labels([r.id for r in records], [r.file for r in records], labels).gaps
    else:
        gaps = labels_from_info(records, LABEL, unit="eV")
    usable = [k for k, r in enumerate(records) if r.status != "refused" and np.isfinite(gaps[k])]
    return LabelledSet([records[k] for k in usable], gaps[usable], crystal_set.level_of_theory)
