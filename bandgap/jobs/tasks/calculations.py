"""Jobs about calculations: read uploaded outputs, and make a labelled data set of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import calculation_paths
from bandgap.jobs.tasks.data import check
from bandgap.jobs.tasks.records import Work

_GAP = "gap_eV"


def read_calculations(work: Work) -> dict[str, Any]:
    """Read the uploaded outputs and write their table (JSON) and structures (extXYZ)."""
    from bandgap.calculations import read_uploads
    from bandgap.calculations.tables import (
        calculation_columns,
        counts_sentence,
        labelled_blocks,
    )
    from bandgap.foundation.replacement import write_whole

    files = work.library.files(work.dataset.id)
    results = read_uploads(
        [(file.name, work.home.upload_path(file.content)) for file in files],
        keep_unconverged=bool(work.job.payload.get("keep_unconverged", False)),
        progress=work.progress,
    )
    table_path, structures_path = calculation_paths(work.home, work.dataset.id)
    table_path.unlink(missing_ok=True)  # written last: where it exists, the structures are complete
    write_whole(structures_path, "".join(labelled_blocks(results)))
    table = {"summary": counts_sentence(results), "columns": calculation_columns(results)}
    write_whole(table_path, json.dumps(table))
    return {"n": len(results), "usable": sum(result.is_usable for result in results)}


def label_calculations(work: Work) -> dict[str, Any]:
    """Check the structures of calculations and store their gaps and level of theory."""
    result = check(work)
    dataset = work.dataset
    verdicts = work.library.verdicts(dataset.id)
    gaps = np.array([verdict.info.get(_GAP, np.nan) for verdict in verdicts], dtype=np.float64)
    if np.isnan(gaps).all():
        raise InputError(f"{dataset.name}: no structure has a gap. Read the calculations again.")
    work.library.save_gaps(
        dataset.id,
        gaps,
        labels={
            "source": "calculations",
            "matched": int(np.isfinite(gaps).sum()),
            "problems": list(work.job.payload.get("problems", ())),
        },
        level_of_theory=str(work.job.payload.get("level_of_theory", "")),
    )
    return result
