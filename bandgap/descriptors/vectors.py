"""Feature vectors of many structures, from the cache or computed in chunks by several processes."""

import contextlib
import functools
import hashlib
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import OwnColumns
from bandgap.descriptors.blocks import NoFeaturesError
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.config import BLOCKS, DescriptorConfig, feature_bytes, n_features
from bandgap.foundation.arguments import check_count, check_type
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.engines import mapped
from bandgap.foundation.errors import BudgetError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures import Problem, StructureRecord, as_records

# Raise it when the same settings give other numbers: existing cache entries are then ignored.
FORMAT = 1
# Atoms in a chunk: about 20 ms of molecules or 0.3 s of crystals between two progress updates.
CHUNK_ATOMS = 1_000
CHUNK_STRUCTURES = 64
# With a slow block such as electron levels, which takes a hundred times as long.
SLOW_CHUNK_ATOMS = 200
# Structures with a slow block, and atoms otherwise (about 5 s of work in one process), above which
# several processes are started.
MIN_SLOW_STRUCTURES_FOR_PROCESSES = 40
MIN_ATOMS_FOR_PROCESSES = 200_000
# Structures per look-up in the cache and per write to it, each of which takes 20 ms. Vectors with a
# slow block are written after each chunk, so that a kill loses seconds of work.
CACHE_BATCH = 1_000

# A vector, or why there is none.
Row = NDArray[np.float32] | str

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Descriptors:
    """Feature vectors of structures, in the order of the records.

    Attributes
    ----------
    features
        float32 (structure, feature). The row of a structure that is refused, or that has a problem
        here, is NaN.
    problems
        Problem of each structure with the descriptor, such as an element that it does not accept.
        Problems of the records themselves are not repeated.
    n_computed
        Number of structures whose vector was computed; 0 if all came from the cache.
    """

    features: NDArray[np.float32]
    problems: tuple[Problem | None, ...]
    n_computed: int


def featurize(
    records: object,
    config: DescriptorConfig,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    memory_budget_bytes: int = 4_000_000_000,
    mapped_from_bytes: int | None = None,
    progress: Progress = no_progress,
) -> Descriptors:
    """Return the feature vectors of all records.

    A structure that cannot be described gets a problem and a row of NaN. Records with equal content
    are computed once. If `progress` raises Cancelled, the vectors computed so far are in the cache.

    Parameters
    ----------
    records
        Molecules (without periodicity) and crystals, of any kind that `as_records` takes.
    config
        The descriptor.
    cache
        Cache of vectors; by default none.
    n_jobs
        Number of processes.
    memory_budget_bytes
        Largest accepted size of the result.
    mapped_from_bytes
        Above this size, the result is in a file that is mapped into memory; by default never.
    progress
        Called after every chunk.

    Raises
    ------
    BudgetError
        Before any work, if the result would be larger than `memory_budget_bytes`.
    InputError
        For structures of another kind, and for another argument of a wrong kind.
    """
    check_type(config, DescriptorConfig, name="config")
    check_count(n_jobs, name="n_jobs")
    if cache is not None:
        check_type(cache, DescriptorCache, name="cache")
    records = as_records(records)
    if config.user_features is not None:
        settings: dict[str, Any] = {
            "cache": cache,
            "n_jobs": n_jobs,
            "memory_budget_bytes": memory_budget_bytes,
            "progress": progress,
        }
        describe = functools.partial(featurize, **settings)
        return _with_own_features(records, config, config.user_features, describe)
    _refuse_over_budget(config, len(records), memory_budget_bytes)
    n_bytes = feature_bytes(config, len(records))
    if mapped_from_bytes is not None and n_bytes > mapped_from_bytes:
        from bandgap.descriptors.feature_arrays import mapped_array

        features = mapped_array(len(records), n_features(config))
    else:
        features = np.full((len(records), n_features(config)), np.nan, dtype=np.float32)
    problems: list[Problem | None] = [None] * len(records)
    indices = _indices_by_key(records, config)
    structures = {key: _atoms(records[equal[0]]) for key, equal in indices.items()}
    total = sum(map(len, indices.values()))
    n_done = 0
    n_computed = 0
    progress(Update("descriptors", 0, total))
    with contextlib.closing(_rows(structures, config, cache=cache, n_jobs=n_jobs)) as chunks:
        for chunk, is_computed in chunks:
            for key, row in chunk.items():
                for i in indices[key]:
                    if isinstance(row, str):
                        problems[i] = Problem("refused", row)
                    else:
                        features[i] = row
                n_done += len(indices[key])
                n_computed += int(is_computed and not isinstance(row, str))
            progress(Update("descriptors", n_done, total))
    return Descriptors(features=features, problems=tuple(problems), n_computed=n_computed)


def _with_own_features(
    records: Sequence[StructureRecord],
    config: DescriptorConfig,
    user_features: OwnColumns,
    describe: Callable[[Sequence[StructureRecord], DescriptorConfig], Descriptors],
) -> Descriptors:
    """Return the vectors of `describe` with the own features before the size and the levels."""
    from bandgap.descriptors.user_features import own_problem

    other_blocks = config.without_own
    n = len(records)
    if other_blocks.terms or other_blocks.blocks:
        described = describe(records, other_blocks)
    else:
        described = Descriptors(np.empty((n, 0), dtype=np.float32), (None,) * n, 0)
    texts = [None if r.status == "refused" else own_problem(r, user_features) for r in records]
    usable = [k for k, r in enumerate(records) if r.status != "refused" and texts[k] is None]
    values = np.full((n, len(user_features.columns)), np.nan, dtype=np.float32)
    places: dict[tuple[str, ...], list[int]] = {}
    for k in usable:
        row = records[k].user_features
        assert row is not None  # `own_problem`
        names = row.table.columns
        if names not in places:
            places[names] = [names.index(column) for column in user_features.columns]
        values[k] = (row.values[places[names]] - user_features.centres) / user_features.scales
    n_last = sum(
        block.width(v) for block, v in other_blocks.blocks if not block.measures_similarity
    )
    first = described.features.shape[1] - n_last
    parts = [described.features[:, :first], values, described.features[:, first:]]
    features = np.hstack(parts)
    problems = [
        problem or (None if text is None else Problem("refused", text))
        for problem, text in zip(described.problems, texts, strict=True)
    ]
    features[[problem is not None for problem in problems]] = np.nan
    return Descriptors(features, tuple(problems), described.n_computed)


def _refuse_over_budget(config: DescriptorConfig, n_structures: int, budget_bytes: int) -> None:
    n_bytes = feature_bytes(config, n_structures)
    if n_bytes <= budget_bytes:
        return
    remedies = []
    if config.terms:
        remedies.append(f"fewer species (now {len(config.species)}: {' '.join(config.species)})")
        remedies += ["no k3"] if config.k3 is not None else []
        remedies.append("fewer grid points")
    remedies.append("fewer structures")
    raise BudgetError(
        f"{n_structures:,} structures x {n_features(config):,} features need "
        f"{n_bytes / 1e9:.2f} GB, more than the budget of {budget_bytes / 1e9:.2f} GB. "
        f"Use {', '.join(remedies)}, or raise the memory budget."
    )


def _indices_by_key(
    records: Sequence[StructureRecord], config: DescriptorConfig
) -> dict[str, list[int]]:
    """Return the indices of the records that are not refused, by the cache key of their content."""
    # Settings of absent blocks are not in the key, so that a new block changes no existing key.
    # `size` has always been in it.
    absent = set(BLOCKS) - {block.setting for block, _ in config.blocks}
    present = {
        name: value for name, value in to_dict(config).items() if name not in absent - {"size"}
    }
    made_by: dict[str, object] = {"mbtr": present, "format": FORMAT, "dscribe": _version()}
    if "Hueckel" in config.levels:
        from bandgap.descriptors import huckel

        made_by["Hueckel"] = huckel.FORMAT
    settings = fingerprint(made_by)
    indices: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        if record.atoms is not None and record.status != "refused":
            key = hashlib.sha256(f"{record.content}:{settings}".encode()).hexdigest()
            indices.setdefault(key, []).append(i)
    return indices


@functools.cache
def _version() -> str:
    return version("dscribe")  # takes a millisecond each time


def _atoms(record: StructureRecord) -> Atoms:
    assert record.atoms is not None  # `_indices_by_key` returns records with atoms only
    return record.atoms


def _rows(
    structures: Mapping[str, Atoms],
    config: DescriptorConfig,
    *,
    cache: DescriptorCache | None,
    n_jobs: int,
) -> Generator[tuple[Mapping[str, Row], bool], None, None]:
    """Yield chunks of rows by key, first from the cache, and whether each chunk was computed."""
    missing = dict(structures)
    keys = list(structures) if cache is not None else []
    for start in range(0, len(keys), CACHE_BATCH):
        assert cache is not None  # without a cache there are no keys to look up
        cached = cache.get_many(keys[start : start + CACHE_BATCH], width=n_features(config))
        for key in cached:
            del missing[key]
        yield cached, False
    new: dict[str, NDArray[np.float32]] = {}
    batch = 1 if _is_slow(config) else CACHE_BATCH
    try:
        for chunk in _computed(missing, config, n_jobs=n_jobs):
            if cache is not None:
                new |= {key: row for key, row in chunk.items() if not isinstance(row, str)}
                if len(new) >= batch:
                    cache.put_many(new)
                    new = {}
            yield chunk, True
    finally:  # also if the caller stops, so that nothing is computed twice
        if cache is not None:
            cache.put_many(new)


def _computed(
    missing: Mapping[str, Atoms], config: DescriptorConfig, *, n_jobs: int
) -> Generator[dict[str, Row], None, None]:
    for block, value in config.blocks if missing else ():
        block.check(value)
    chunks = _chunks(missing, SLOW_CHUNK_ATOMS if _is_slow(config) else CHUNK_ATOMS)
    if not _needs_processes(missing, config):
        yield from (_compute_chunk(chunk, config) for chunk in chunks)
        return
    with contextlib.closing(
        mapped(_compute_chunk, ((chunk, config) for chunk in chunks), n_jobs=n_jobs)
    ) as rows:
        yield from rows


def _needs_processes(missing: Mapping[str, Atoms], config: DescriptorConfig) -> bool:
    """Return whether the work takes longer than starting processes that load DScribe."""
    if _is_slow(config):
        return len(missing) > MIN_SLOW_STRUCTURES_FOR_PROCESSES
    if config.k3 is not None and len(missing) > CHUNK_STRUCTURES:
        return True
    # An atom of a crystal takes about four times as long as one of a molecule.
    n_atoms = sum(len(atoms) * (4 if atoms.pbc.any() else 1) for atoms in missing.values())
    return n_atoms > MIN_ATOMS_FOR_PROCESSES


def _is_slow(config: DescriptorConfig) -> bool:
    return any(block.is_slow for block, _ in config.blocks)


def _chunks(missing: Mapping[str, Atoms], max_atoms: int) -> list[dict[str, Atoms]]:
    chunks: list[dict[str, Atoms]] = []
    n_atoms = 0
    for key, atoms in missing.items():
        if not chunks or len(chunks[-1]) >= CHUNK_STRUCTURES or n_atoms + len(atoms) > max_atoms:
            chunks.append({})
            n_atoms = 0
        chunks[-1][key] = atoms
        n_atoms += len(atoms)
    return chunks


def _compute_chunk(chunk: Mapping[str, Atoms], config: DescriptorConfig) -> dict[str, Row]:
    return {key: _compute(atoms, config) for key, atoms in chunk.items()}


def _compute(atoms: Atoms, config: DescriptorConfig) -> Row:
    from bandgap.descriptors import mbtr  # loads ASE

    reason = mbtr.obstacle(atoms, config)
    if reason is not None:
        return reason
    try:
        row = mbtr.describe(atoms, config).astype(np.float32)
    except NoFeaturesError as error:
        return str(error)
    except Exception as error:  # whatever DScribe raises, the other structures are described
        _log.exception("the descriptor of a structure of %d atoms failed", len(atoms))
        return f"could not be described by DScribe ({type(error).__name__}: {error})."
    if not np.isfinite(row).all():
        return "has a descriptor that is not finite; check its positions and cell."
    return row
