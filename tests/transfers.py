"""Transfer runs in tests, from records, gaps and fields of a request; sources with snapshots."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.datasets.table import LabelledSet
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.swag import Snapshots
from bandgap.runs.requests import TransferRequest
from bandgap.runs.transfer import transfer_run
from bandgap.sources.model import SourceModel
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


def with_snapshots(source: SourceModel) -> SourceModel:
    """Return the source with snapshots spread about its weights by 0.05."""
    generator = torch.Generator().manual_seed(0)
    drawn = {
        n: v + 0.05 * torch.randn((4, *v.shape), generator=generator)
        for n, v in source.params.items()
    }
    mean = {n: v.mean(0) for n, v in drawn.items()}
    deviations = {n: v - mean[n] for n, v in drawn.items()}
    return replace(
        source, snapshots=Snapshots(mean, {n: v.var(0) for n, v in drawn.items()}, deviations)
    )
