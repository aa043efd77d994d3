"""Structures compared with those of a source model: unknown elements, distance, nearest structure.

A source stores the directions of up to 1,000 of its training structures. The distance is defined in
`bandgap.predictions.domain`. The directions of the demo sources are computed from their structures.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bandgap.datasets.demo import (
    HELD_OUT,
    demo_source_folder,
    inorganic_source_folder,
    load_demo,
    load_inorganic,
)
from bandgap.datasets.table import Table, elements_of
from bandgap.descriptors import DescriptorConfig, featurize, similarity_features
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.predictions.domain import FAR, MAX_ROWS, Domain, Judgement, fit_domain
from bandgap.sources.model import SourceModel
from bandgap.sources.sets import open_sources
from bandgap.storage.stored_fields import load_fields, save_fields
from bandgap.structures import StructureRecord

DOMAIN = "domain.safetensors"
COLUMNS = ("id", "file", "judgement", "unseen", "distance", "percentile", "nearest")

# Structures whose features are in memory at a time.
_CHUNK = 2_000


def save_domain(folder: Path, tables: Sequence[Table], descriptor: DescriptorConfig) -> None:
    """Write the domain of a source's training structures into its folder.

    Only the rows that are stored are copied. Raises InputError for fewer than two structures.
    """
    ends = np.cumsum([len(table) for table in tables])
    rows = np.arange(ends[-1])
    if rows.size > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows.size, MAX_ROWS, replace=False))
    table_of_row = np.searchsorted(ends, rows, side="right")
    chosen_tables = [
        table.rows(rows[table_of_row == k] - (ends[k] - len(table)))
        for k, table in enumerate(tables)
    ]
    domain = fit_domain(
        np.concatenate([similarity_features(t.features, descriptor) for t in chosen_tables]),
        ids=[id for table in chosen_tables for id in table.ids],
        elements=[elements for table in chosen_tables for elements in table.elements],
        source_species=sorted(
            {element for table in tables for elements in table.elements for element in elements}
        ),
    )
    save_fields(domain, folder / DOMAIN)


def load_domain(
    folder: Path, *, cache: DescriptorCache | None = None, progress: Progress = no_progress
) -> Domain:
    """Return the domain of a stored source.

    Raises InputError if the source was stored without, and ArtifactError if the file is damaged.
    """
    path = Path(folder) / DOMAIN
    if not path.is_file():
        if (records := shipped_records(folder)) is not None:
            return _domain_of_shipped(Path(folder), records, cache, progress)
        raise InputError(
            "This source model was stored without the directions of its training structures, so "
            "that no distance to them is known. Train it again, or, for a source of one set, add "
            "them with `bandgap source-extras`."
        )
    return load_fields(Domain, path)


def judge(
    folder: Path,
    records: Sequence[StructureRecord],
    *,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return one row for every structure (`COLUMNS`), and the summary for the dashboard.

    Distances are 1 - cosine of descriptors. The percentile is the share of the source's structures
    that are nearer to their nearest structure. Refused structures and those with elements that the
    descriptor lacks have no distance.
    """
    model = _first_model(folder)
    descriptor = model.descriptor
    domain = load_domain(folder, cache=cache, progress=progress)
    domain = replace(domain, source_species=domain.source_species or model.card.elements)
    source_species = set(domain.source_species)
    unseen = [sorted(elements_of(record) - source_species) for record in records]
    judgements: list[Judgement] = []
    for start in range(0, len(records), _CHUNK):
        chunk = list(records[start : start + _CHUNK])
        described = featurize(chunk, descriptor, cache=cache, progress=progress)
        progress(Update("comparing with the source's structures", start, len(records)))
        judgements += domain.judge(
            similarity_features(described.features, descriptor), [elements_of(r) for r in chunk]
        )
    texts = [
        _judgement_text(record, elements, judgement)
        for record, elements, judgement in zip(records, unseen, judgements, strict=True)
    ]
    table = pd.DataFrame(
        {
            "id": [record.id for record in records],
            "file": [record.file for record in records],
            "judgement": texts,
            "unseen": [" ".join(elements) for elements in unseen],
            "distance": np.array([j.distance for j in judgements]),
            "percentile": np.array([j.percentile for j in judgements]),
            "nearest": [j.nearest for j in judgements],
        }
    )
    return table, _summary(table, domain, unseen)


def _inorganic_training_records() -> Sequence[StructureRecord]:
    demo = load_inorganic("source")
    return [
        record
        for record, part in zip(demo.records, demo.table["part"], strict=True)
        if part != HELD_OUT
    ]


# Folder, training structures, and whether these are periodic.
_SHIPPED: Sequence[tuple[Callable[[], Path], Callable[[], Sequence[StructureRecord]], bool]] = (
    (demo_source_folder, lambda: load_demo("molecules").records, False),
    (inorganic_source_folder, _inorganic_training_records, True),
)


def shipped_records(
    folder: Path, *, periodic: Collection[bool] = (False, True)
) -> Sequence[StructureRecord] | None:
    """Return the training structures of a source that is part of the demo data, else None.

    Reading them takes seconds: it is left out where they are not of a kind in `periodic`.
    """
    for shipped, records, is_periodic in _SHIPPED:
        if Path(folder).resolve() == shipped().resolve():
            return records() if is_periodic in periodic else ()
    return None


def _domain_of_shipped(
    folder: Path,
    records: Sequence[StructureRecord],
    cache: DescriptorCache | None,
    progress: Progress,
) -> Domain:
    """Return the domain of a shipped source, from a fixed selection of its training structures."""
    rows = np.sort(
        np.random.default_rng(0).choice(len(records), min(MAX_ROWS, len(records)), replace=False)
    )
    selection = [records[row] for row in rows]
    descriptor = _first_model(folder).descriptor
    features = featurize(selection, descriptor, cache=cache, progress=progress).features
    return fit_domain(
        similarity_features(features, descriptor),
        ids=[record.id for record in selection],
        elements=[elements_of(record) for record in selection],
        source_species=sorted(set().union(*(elements_of(record) for record in records))),
    )


def _first_model(folder: Path) -> SourceModel:
    members = open_sources(folder).load(verify=False, extras=False)
    return next(iter(members[0].values()))


def _judgement_text(record: StructureRecord, unseen: Sequence[str], judgement: Judgement) -> str:
    if record.atoms is None:
        return "refused"
    texts = [f"contains {', '.join(unseen)}, never seen by the source model"] if unseen else []
    if np.isnan(judgement.distance):
        texts.append("no distance: the descriptor of this source does not know all of its elements")
    elif judgement.percentile > FAR:
        share = f"{int(100 * judgement.percentile + 1e-9)} %"
        share = "all" if judgement.percentile >= 1.0 else share
        texts.append(f"outside: farther than {share} of the source's own")
    return "; ".join(texts) or "inside"


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
