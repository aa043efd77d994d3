"""Columns of the user's own table as features: embeddings, MAGPIE, levels, any numbers.

They belong to a record and not to its geometry (`StructureRecord.own`), so they are neither
computed nor cached. Each column is centred and scaled by the training set's mean and standard
deviation, like the element properties of `composition`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import OwnColumns
from bandgap.descriptors.blocks import Block, NoFeaturesError
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.structures import Problem, StructureRecord

if TYPE_CHECKING:
    from ase import Atoms

    from bandgap.descriptors.config import DescriptorConfig
    from bandgap.descriptors.vectors import Descriptors


def own_columns(records: Sequence[StructureRecord]) -> OwnColumns | None:
    """Return the columns of the training set's own features, None where it has none.

    Columns with one value in all structures are left out. Raises InputError if none is left.
    """
    rows = [record.own for record in records if record.own is not None]
    if not rows:
        return None
    table = rows[0].table
    values = np.stack([row.values for row in rows])
    varies = np.flatnonzero(np.ptp(values, axis=0) > 0)
    if not varies.size:
        raise InputError(
            f"{table.file}: each column has the same value in all {len(rows):,} structures that "
            "are in it. Nothing can be learned from it."
        )
    return OwnColumns(
        tuple(table.columns[k] for k in varies),
        tuple(values[:, varies].mean(axis=0).tolist()),
        tuple(values[:, varies].std(axis=0).tolist()),
        table.file,
        table.sha256,
    )


def own_problem(record: StructureRecord, own: OwnColumns | None) -> str | None:
    """Return why a structure lacks its own features, None where it has them or needs none."""
    if own is None or (record.own and set(own.columns) <= set(record.own.table.columns)):
        return None
    return f"has no own features ({own.words}): name their table, --features FILE."


def with_own_features(
    records: Sequence[StructureRecord],
    config: "DescriptorConfig",
    own: OwnColumns,
    describe: "Callable[[Sequence[StructureRecord], DescriptorConfig], Descriptors]",
) -> "Descriptors":
    """Return the vectors of `describe` with the own features before the size and the levels."""
    from bandgap.descriptors.vectors import Descriptors

    rest = config.without_own
    n = len(records)
    if rest.terms or rest.blocks:
        described = describe(records, rest)
    else:
        described = Descriptors(np.empty((n, 0), dtype=np.float32), (None,) * n, 0)
    texts = [None if r.status == "refused" else own_problem(r, own) for r in records]
    usable = [k for k, r in enumerate(records) if r.status != "refused" and texts[k] is None]
    values = np.full((n, len(own.columns)), np.nan, dtype=np.float32)
    places: dict[tuple[str, ...], list[int]] = {}
    for k in usable:
        row = records[k].own
        assert row is not None  # `own_problem`
        names = row.table.columns
        if names not in places:
            places[names] = [names.index(column) for column in own.columns]
        values[k] = (row.values[places[names]] - own.centres) / own.scales
    n_last = sum(block.width(v) for block, v in rest.blocks if not block.measures_similarity)
    first = described.features.shape[1] - n_last
    parts = [described.features[:, :first], values, described.features[:, first:]]
    features = np.hstack(parts)
    problems = [
        problem or (None if text is None else Problem("refused", text))
        for problem, text in zip(described.problems, texts, strict=True)
    ]
    features[[problem is not None for problem in problems]] = np.nan
    return Descriptors(features, tuple(problems), described.n_computed)


def _no_row(atoms: "Atoms", own: OwnColumns) -> NDArray[Any]:
    raise NoFeaturesError(f"has no own features ({own.words}): they belong to a record.")


def _refuse(own: OwnColumns) -> None:
    raise ConfigError(
        f"This run learned from own features ({own.words}), which a structure alone does not "
        "have. Use a run without, or `bandgap predict --features FILE`."
    )


BLOCK: Final = Block(
    "own",
    width=lambda own: 0 if own is None else len(own.columns),
    name=lambda own: "own features",
    describe=_no_row,
    measures_similarity=True,
    check=_refuse,
)
