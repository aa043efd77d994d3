"""Reference structures stored with a model: a few structures and what the model predicted for them
when it was stored.

Loading recomputes the predictions, descriptor included, and refuses the model when they differ,
because a stored model in a new environment can silently predict something else.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from bandgap.foundation.errors import ArtifactError
from bandgap.storage.manifests import versions
from bandgap.structures import StructureRecord
from bandgap.structures.records import OwnRow, OwnTable

N_REFERENCES = 5
TOLERANCE_EV = 2e-3  # float32 descriptors and weights on another machine differ by less

Floats = NDArray[np.float64]


def reference_rows(
    records: Sequence[StructureRecord], predicted: Floats, *, baseline_eV: Floats | None = None
) -> list[dict[str, Any]]:
    """Return the structures, their predictions (n,) and baseline (n,) in eV as plain values for the
    manifest.
    """
    rows = []
    for record, mean in zip(records, predicted, strict=True):
        atoms = record.atoms
        assert atoms is not None  # refused structures never reach a fit
        rows.append(
            {
                "id": record.id,
                "numbers": atoms.numbers.tolist(),
                "positions": atoms.positions.tolist(),
                "cell": atoms.cell.array.tolist(),
                "pbc": atoms.pbc.tolist(),
                "mean_eV": float(mean),
            }
            | _own_values(record.user_features)
        )
    for row, value in zip(
        rows, [] if baseline_eV is None else baseline_eV, strict=baseline_eV is not None
    ):
        row["baseline_eV"] = float(value)
    return rows


def reference_baseline_eV(manifest: Mapping[str, Any]) -> Floats | None:
    """Return the baseline (n,) in eV of the stored structures, None where the model has none."""
    values = [row["baseline_eV"] for row in manifest["references"] if "baseline_eV" in row]
    return np.array(values, dtype=np.float64) if values else None


def check_references(
    folder: Path, manifest: Mapping[str, Any], predict: Callable[[list[StructureRecord]], Floats]
) -> None:
    """Recompute the stored reference predictions; raises ArtifactError naming the structure that
    differs most.
    """
    rows = manifest["references"]
    if not 1 <= len(rows) <= N_REFERENCES:
        raise ArtifactError(
            f"{folder}: {len(rows)} reference structures, so that its self-check cannot be made. "
            f"Accepted: 1 to {N_REFERENCES}. Its files were altered: make it again."
        )
    stored = np.array([row["mean_eV"] for row in rows], dtype=np.float64)
    values = predict([_record(row) for row in rows])
    difference = np.abs(values - stored)
    worst = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
    if not difference[worst] <= TOLERANCE_EV:
        then = manifest.get("versions", {})
        now = versions()
        changed = [
            f"{name} {then[name]} -> {now[name]}"
            for name in now
            if then.get(name, now[name]) != now[name]
        ]
        advice = (
            "Install those versions, or train the model again"
            if changed
            else "Its files were altered: make it again"
        )
        raise ArtifactError(
            f"{folder}: the stored model fails its self-check: structure {rows[worst]['id']} gives "
            f"{values[worst]:.3f} eV, {stored[worst]:.3f} eV when it was stored. Changed since "
            f"then: {', '.join(changed) or 'no version'}. "
            f"{advice}."
        )


def _own_values(row: OwnRow | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {"user_features": dict(zip(row.table.columns, row.values.tolist(), strict=True))}


def _record(row: Mapping[str, Any]) -> StructureRecord:
    values = row.get("user_features", {})
    user_features = (
        OwnRow(OwnTable(tuple(values), ""), np.array(list(values.values()))) if values else None
    )
    atoms = Atoms(  # type: ignore[no-untyped-call]
        row["numbers"], row["positions"], cell=row["cell"], pbc=row["pbc"]
    )
    return StructureRecord(row["id"], "reference", "extXYZ", atoms, user_features=user_features)
