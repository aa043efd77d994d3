"""How structures stand to what a source model was trained on: unseen elements, distance, nearest known structure.

A source keeps the directions of up to 1,000 of its training structures (`bandgap.predictions.domain` says what is
measured, and how well it tells apart); those of the demos are computed from their structures.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save

from bandgap.datasets.demo import (
    HELD_OUT,
    demo_source_folder,
    inorganic_source_folder,
    load_demo,
    load_inorganic,
)
from bandgap.datasets.table import Table, elements_of
from bandgap.descriptors import MBTRConfig, featurize, similarity_features
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.predictions.domain import FAR, MAX_ROWS, Domain, Judgement, fit_domain
from bandgap.sources.sets import open_sources
from bandgap.sources.stored import load_source
from bandgap.structures import StructureRecord

DOMAIN = "domain.safetensors"
COLUMNS = ("id", "file", "judgement", "unseen", "distance", "percentile", "nearest")

_CHUNK = 2_000  # structures whose features are in memory at a time


def save_domain(folder: Path, tables: Sequence[Table], descriptor: MBTRConfig) -> None:
    """Write the domain of a source's training structures beside its weights; only the rows that are kept are copied.

    Raises InputError where there are fewer than two structures.
    """
    ends = np.cumsum([len(table) for table in tables])
    rows = np.arange(ends[-1])
    if rows.size > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows.size, MAX_ROWS, replace=False))
    which = np.searchsorted(ends, rows, side="right")
    kept = [
        tables[k].rows(rows[which == k] - (ends[k] - len(tables[k]))) for k in range(len(tables))
    ]
    domain = fit_domain(
        np.concatenate([similarity_features(table.features, descriptor) for table in kept]),
        ids=[id for table in kept for id in table.ids],
        elements=[elements for table in kept for elements in table.elements],
        source_species=sorted(
            {element for table in tables for elements in table.elements for element in elements}
        ),
    )
    (folder / DOMAIN).write_bytes(save(domain.to_arrays()))


def load_domain(
    folder: Path, *, cache: DescriptorCache | None = None, progress: Progress = no_progress
) -> Domain:
    """Return the domain of a stored source.

    Raises InputError for a source that was stored without, and ArtifactError on a damaged file.
    """
    path = Path(folder) / DOMAIN
    if not path.is_file():
        for shipped, records in _SHIPPED:
            if Path(folder).resolve() == shipped().resolve():
                return _of_shipped(shipped(), records(), cache, progress)
        raise InputError(
            "This source model was stored without the directions of its training structures, so that no distance to "
            "them is known. Train it again, or, for a source of one set, add them with `bandgap source-extras`."
        )
    try:
        return Domain.from_arrays(load_file(path))
    except DAMAGE as error:
        raise ArtifactError(
            f"{path} cannot be read ({error}). Train the source model again."
        ) from error


def judge(
    folder: Path,
    records: Sequence[StructureRecord],
    *,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return one row for every structure (`COLUMNS`), and the summary that a page shows.

    Distances are 1 - cosine of descriptors; the percentile is the share of the source's own structures that are nearer
    to their nearest one. Refused structures and those with elements that the descriptor lacks have no distance.
    """
    descriptor = _descriptor(folder)
    domain = load_domain(folder, cache=cache, progress=progress)
    found: list[Judgement] = []
    for start in range(0, len(records), _CHUNK):
        part = list(records[start : start + _CHUNK])
        described = featurize(part, descriptor, cache=cache, progress=progress)
        progress(Update("comparing with the source's structures", start, len(records)))
        found += domain.judge(
            similarity_features(described.features, descriptor), [elements_of(r) for r in part]
        )
    known = set(domain.source_species)
    unseen = [sorted(elements_of(record) - known) for record in records]
    table = pd.DataFrame(
        {
            "id": [record.id for record in records],
            "file": [record.file for record in records],
            "judgement": [_words(r, u, j) for r, u, j in zip(records, unseen, found, strict=True)],
            "unseen": [" ".join(elements) for elements in unseen],
            "distance": np.array([j.distance for j in found]),
            "percentile": np.array([j.percentile for j in found]),
            "nearest": [j.nearest for j in found],
        }
    )
    return table, _summary(table, domain, unseen)


def _learned_inorganic() -> Sequence[StructureRecord]:
    demo = load_inorganic("source")
    return [
        record
        for record, part in zip(demo.records, demo.table["part"], strict=True)
        if part != HELD_OUT
    ]


_SHIPPED: Sequence[tuple[Callable[[], Path], Callable[[], Sequence[StructureRecord]]]] = (
    (demo_source_folder, lambda: load_demo("molecules").records),
    (inorganic_source_folder, _learned_inorganic),
)


def _of_shipped(
    folder: Path,
    records: Sequence[StructureRecord],
    cache: DescriptorCache | None,
    progress: Progress,
) -> Domain:
    """Return the domain of a shipped source, from a fixed choice of the structures that it was trained on."""
    rows = np.sort(
        np.random.default_rng(0).choice(len(records), min(MAX_ROWS, len(records)), replace=False)
    )
    chosen = [records[row] for row in rows]
    descriptor = _descriptor(folder)
    features = featurize(chosen, descriptor, cache=cache, progress=progress).features
    return fit_domain(
        similarity_features(features, descriptor),
        ids=[record.id for record in chosen],
        elements=[elements_of(record) for record in chosen],
        source_species=sorted(set().union(*(elements_of(record) for record in records))),
    )


def _descriptor(folder: Path) -> MBTRConfig:
    first = next(iter(open_sources(folder).members[0].values()))
    return load_source(first, verify=False, extras=False).descriptor


def _words(record: StructureRecord, unseen: Sequence[str], found: Judgement) -> str:
    if record.atoms is None:
        return "refused"
    parts = [f"contains {', '.join(unseen)}, never seen by the source model"] if unseen else []
    if np.isnan(found.distance):
        return "; ".join(
            [*parts, "no distance: the descriptor of this source does not know all of its elements"]
        )
    if found.percentile > FAR:
        share = "all" if found.percentile >= 1.0 else f"{int(100 * found.percentile + 1e-9)} %"
        parts.append(f"outside: farther than {share} of the source's own")
    return "; ".join(parts) or "inside"


def _summary(
    table: pd.DataFrame, domain: Domain, unseen: Sequence[Sequence[str]]
) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for elements in unseen:
        for element in elements:
            counts[element] = counts.get(element, 0) + 1
    percentiles = table["percentile"].to_numpy(dtype=np.float64)
    return {
        "n": int(np.isfinite(percentiles).sum()),
        "far": int((percentiles > FAR).sum()),
        "unseen": counts,
        "species": list(domain.source_species),
        "n_known": len(domain.ids),
        "known_distances": np.quantile(domain.distances, np.linspace(0.0, 1.0, 101)).tolist(),
    }
