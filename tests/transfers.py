"""Transfer runs in tests, from records, gaps and the fields of a request."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import LabelledSet
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import Progress, no_progress
from bandgap.runs.requests import TransferRequest
from bandgap.runs.transfer import transfer_run
from bandgap.structures import StructureRecord


def transfer_labelled(
    source: Path | str | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    out: Path,
    level_of_theory: str = "",
    baseline_eV: NDArray[np.floating[Any]] | None = None,
    cache: DescriptorCache | None = None,
    checkpoints: Path | None = None,
    progress: Progress = no_progress,
    **fields: Any,
) -> Path:
    """Call `transfer_run` on records with gaps (n,) in eV; `fields` are those of the request."""
    return transfer_run(
        source,
        LabelledSet(records, gaps_eV, level_of_theory, baseline_eV=baseline_eV),
        TransferRequest(**fields),
        out=out,
        cache=cache,
        checkpoints=checkpoints,
        progress=progress,
    )
