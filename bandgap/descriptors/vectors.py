"""Vectors of many structures: refused over budget, from the cache where known, else in chunks over processes."""

import contextlib
import functools
import hashlib
import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.config import PARTS, DescriptorConfig, estimate, n_features, parts_of
from bandgap.descriptors.feature_arrays import mapped_array
from bandgap.descriptors.parts import NoFeaturesError
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.engines import mapped
from bandgap.foundation.errors import BudgetError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures import Problem, StructureRecord

FORMAT = 1  # raise it when the same settings give other numbers: older cache entries are then not found any more
CHUNK_ATOMS = (
    1_000  # atoms in a chunk: about 20 ms of molecules or 0.3 s of crystals between two updates
)
CHUNK_STRUCTURES = 64
SLOW_CHUNK_ATOMS = (
    200  # with a slow part such as electron levels, which take a hundred times as long
)
SLOW_PROCESSES_FROM = 40  # structures with a slow part
PROCESSES_FROM_ATOMS = 200_000  # about 5 s of work in one process
CACHE_BATCH = (
    1_000  # structures looked up in the cache, or added to it, at once: each time takes 20 ms
)

Row = NDArray[np.float32] | str  # a vector, or why there is none

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Descriptors:
    """Vectors of structures, in the order of the records.

    `features` is float32 (structure, feature); the row of a structure that is refused, or that has a problem here, is
    NaN. `problems` holds what the descriptor found (an element that it was not set up for, ...), not the record's own
    problems. `n_computed` counts the structures for which MBTR was computed: 0 when all came from the cache.
    """

    features: NDArray[np.float32]
    problems: tuple[Problem | None, ...]
    n_computed: int


def featurize(
    records: Sequence[StructureRecord],
    config: DescriptorConfig,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    memory_budget_bytes: int = 4_000_000_000,
    mapped_from_bytes: int | None = None,
    progress: Progress = no_progress,
) -> Descriptors:
    """Return the vectors of all records; molecules without, crystals with their periodicity.

    A structure that cannot be described is that structure's problem and gets a row of NaN. Records with equal content
    are computed once. `progress` is called between chunks and may raise Cancelled; what is computed by then is in the
    cache. Raises BudgetError before any work when the array would be larger than `memory_budget_bytes`.
    From `mapped_from_bytes` on, where given, the array stands in a file that is mapped into memory.
    """
    _refuse_over_budget(config, len(records), memory_budget_bytes)
    n_bytes = estimate(config, len(records)).n_bytes
    if mapped_from_bytes is not None and n_bytes > mapped_from_bytes:
        features = mapped_array(len(records), n_features(config))
    else:
        features = np.full((len(records), n_features(config)), np.nan, dtype=np.float32)
    problems: list[Problem | None] = [None] * len(records)
    places = _places_by_key(records, config)
    structures = {key: _atoms(records[where[0]]) for key, where in places.items()}
    total, done, n_computed = sum(map(len, places.values())), 0, 0
    progress(Update("descriptors", 0, total))
    with contextlib.closing(_rows(structures, config, cache=cache, n_jobs=n_jobs)) as chunks:
        for chunk, computed in chunks:
            for key, row in chunk.items():
                for i in places[key]:
                    if isinstance(row, str):
                        problems[i] = Problem("refused", row)
                    else:
                        features[i] = row
                done += len(places[key])
                n_computed += int(computed and not isinstance(row, str))
            progress(Update("descriptors", done, total))
    return Descriptors(features=features, problems=tuple(problems), n_computed=n_computed)


def _refuse_over_budget(config: DescriptorConfig, n_structures: int, budget_bytes: int) -> None:
    need = estimate(config, n_structures)
    if need.n_bytes <= budget_bytes:
        return
    fewer = f"fewer species (now {len(config.species)}: {' '.join(config.species)})"
    of_terms = (
        [fewer, *(["no k3"] if config.k3 is not None else []), "fewer grid points"]
        if config.terms
        else []
    )
    ways = [*of_terms, "fewer structures"]
    raise BudgetError(
        f"{n_structures:,} structures x {need.n_features:,} features need {need.n_bytes / 1e9:.2f} GB, more than the "
        f"budget of {budget_bytes / 1e9:.2f} GB. Use {', '.join(ways)}, or raise the memory budget."
    )


def _places_by_key(
    records: Sequence[StructureRecord], config: DescriptorConfig
) -> dict[str, list[int]]:
    """Return the rows of every distinct structure that is not refused, by cache key."""
    newer = (
        {part.setting for part in PARTS} - {part.setting for part, _ in parts_of(config)} - {"size"}
    )
    chosen = {
        name: value for name, value in to_dict(config).items() if name not in newer
    }  # as keys were without them
    settings = fingerprint({"mbtr": chosen, "format": FORMAT, "dscribe": _version()})
    places: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        if record.atoms is not None and record.status != "refused":
            key = hashlib.sha256(f"{record.content}:{settings}".encode()).hexdigest()
            places.setdefault(key, []).append(i)
    return places


@functools.cache
def _version() -> str:
    return version("dscribe")  # takes a millisecond each time


def _atoms(record: StructureRecord) -> Atoms:
    assert record.atoms is not None  # _places_by_key holds only records with atoms
    return record.atoms


def _rows(
    structures: Mapping[str, Atoms],
    config: DescriptorConfig,
    *,
    cache: DescriptorCache | None,
    n_jobs: int,
) -> Generator[tuple[Mapping[str, Row], bool], None, None]:
    """Yield rows by key, chunk after chunk, and whether they were computed: first the cached ones, then the others."""
    missing = dict(structures)
    keys = list(structures) if cache is not None else []
    for start in range(0, len(keys), CACHE_BATCH):
        assert cache is not None  # without a cache there are no keys to look up
        known = cache.get_many(keys[start : start + CACHE_BATCH], width=n_features(config))
        for key in known:
            del missing[key]
        yield known, False
    new: dict[str, NDArray[np.float32]] = {}
    try:
        for chunk in _computed(missing, config, n_jobs=n_jobs):
            if cache is not None:
                new |= {key: row for key, row in chunk.items() if not isinstance(row, str)}
                if len(new) >= CACHE_BATCH:
                    cache.put_many(new)
                    new = {}
            yield chunk, True
    finally:  # also where the caller stops: what is computed is not computed again
        if cache is not None:
            cache.put_many(new)


def _computed(
    missing: Mapping[str, Atoms], config: DescriptorConfig, *, n_jobs: int
) -> Generator[dict[str, Row], None, None]:
    for part, value in parts_of(config) if missing else ():
        part.check(value)
    chunks = _chunks(missing, SLOW_CHUNK_ATOMS if _is_slow(config) else CHUNK_ATOMS)
    if not _pays_processes(missing, config):
        yield from (_compute_chunk(chunk, config) for chunk in chunks)
        return
    with contextlib.closing(
        mapped(_compute_chunk, ((chunk, config) for chunk in chunks), n_jobs=n_jobs)
    ) as rows:
        yield from rows


def _pays_processes(missing: Mapping[str, Atoms], config: DescriptorConfig) -> bool:
    """Return whether there is more work than the seconds that it takes to start processes and load DScribe in them."""
    if _is_slow(config):
        return len(missing) > SLOW_PROCESSES_FROM
    weights = {
        False: 1,
        True: 4,
    }  # an atom of a crystal takes about four times as long as one of a molecule
    work = sum(len(atoms) * weights[bool(atoms.pbc.any())] for atoms in missing.values())
    return work > PROCESSES_FROM_ATOMS or (
        config.k3 is not None and len(missing) > CHUNK_STRUCTURES
    )


def _is_slow(config: DescriptorConfig) -> bool:
    return any(part.slow for part, _ in parts_of(config))


def _chunks(missing: Mapping[str, Atoms], most_atoms: int) -> list[dict[str, Atoms]]:
    chunks: list[dict[str, Atoms]] = []
    n_atoms = 0
    for key, atoms in missing.items():
        if not chunks or len(chunks[-1]) >= CHUNK_STRUCTURES or n_atoms + len(atoms) > most_atoms:
            chunks.append({})
            n_atoms = 0
        chunks[-1][key] = atoms
        n_atoms += len(atoms)
    return chunks


def _compute_chunk(chunk: Mapping[str, Atoms], config: DescriptorConfig) -> dict[str, Row]:
    return {key: _compute(atoms, config) for key, atoms in chunk.items()}


def _compute(atoms: Atoms, config: DescriptorConfig) -> Row:
    from bandgap.descriptors import mbtr  # loads ASE: only where something is computed

    reason = mbtr.obstacle(atoms, config)
    if reason is not None:
        return reason
    try:
        row = mbtr.describe(atoms, config).astype(np.float32)
    except NoFeaturesError as error:
        return str(error)
    except Exception as error:  # one structure never costs the others, whatever DScribe meets in it
        _log.exception("the descriptor of a structure of %d atoms failed", len(atoms))
        return f"could not be described by DScribe ({type(error).__name__}: {error})."
    return (
        row
        if np.isfinite(row).all()
        else "has a descriptor that is not finite; check its positions and cell."
    )
