"""Columns of the user's own table as features: embeddings, MAGPIE, levels, any numbers.

They belong to a record and not to its geometry (`StructureRecord.user_features`), so they are
neither computed nor cached. Each column is centred and scaled by the training set's mean and
standard deviation, like the element properties of `composition`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import OwnColumns
from bandgap.descriptors.blocks import Block, NoFeaturesError
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.structures import StructureRecord

if TYPE_CHECKING:
    from ase import Atoms


def own_columns(records: Sequence[StructureRecord]) -> OwnColumns | None:
    """Return the columns of the training set's own features, None where it has none.

    Columns with one value in all structures are left out. Raises InputError if none is left.
    """
    rows = [record.user_features for record in records if record.user_features is not None]
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


def own_problem(record: StructureRecord, user_features: OwnColumns | None) -> str | None:
    """Return why a structure lacks its own features, None where it has them or needs none."""
    if user_features is None or (
        record.user_features
        and set(user_features.columns) <= set(record.user_features.table.columns)
    ):
        return None
    return f"has no own features ({user_features.words}): name their table, --features FILE."


def _no_row(atoms: "Atoms", user_features: OwnColumns) -> NDArray[Any]:
    raise NoFeaturesError(f"has no own features ({user_features.words}): they belong to a record.")


def _refuse(user_features: OwnColumns) -> None:
    raise ConfigError(
        f"This run learned from own features ({user_features.words}), which a structure alone "
        "does not have. Use a run without, or `bandgap predict --features FILE`."
    )


BLOCK: Final = Block(
    "user_features",
    width=lambda user_features: 0 if user_features is None else len(user_features.columns),
    name=lambda user_features: "own features",
    describe=_no_row,
    measures_similarity=True,
    check=_refuse,
)
