"""The fit of a method from every network of a source, and the mixture of the posteriors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, METHOD, n_levels
from bandgap.evaluation.error_context import TINY
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.inference.checkpoints import Checkpoint
from bandgap.posterior import Posterior, mix
from bandgap.sources.model import SourceModel
from bandgap.transfer import Method, TargetData
from bandgap.transfer.shared.baseline import fit_baseline, with_baseline
from bandgap.transfer.shared.metals import (
    fit_classifier,
    has_metals,
    semiconductors,
    with_metals,
)


def refuse_gaps_as_inputs(data: TargetData, levels: ElectronLevels, *, baseline: str = "") -> None:
    """Raise InputError where electron levels or the baseline are the gaps that are learned.

    They are the last columns of the features. They are the gaps where the root mean square
    difference is below `TINY` of the gaps' standard deviation.
    """
    kinds: tuple[ElectronLevels, ...] = (METHOD, HUECKEL) if levels == BOTH else (levels,)
    names = [f"{kind} electron levels" for kind in kinds for _ in range(n_levels(kind))]
    if baseline:
        names.append(f"the baseline {baseline}")
    spread_eV = float(data.gaps_eV.std())
    for name, values in zip(names[::-1], data.features.T[::-1], strict=False):
        difference_eV = float(np.sqrt(np.mean((values - data.gaps_eV) ** 2)))
        if difference_eV < TINY * spread_eV:
            raise InputError(
                f"The gaps to learn are those of {name}: they differ by {difference_eV:.2g} eV "
                f"(root mean square), and the gaps by {spread_eV:.2g} eV among themselves. The "
                "errors would say nothing of other gaps. Leave them out."
            )


def fit_members(
    method: Method,
    members: Sequence[Mapping[str, SourceModel]],
    data: TargetData,
    config: Any,
    *,
    head: str,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Fit a method as `fit_gaps`; metals among the labels have a classifier.

    The method then learns the gaps of the semiconductors (`transfer.shared.metals`).
    """
    classifier = None
    learned = data
    if has_metals(data.gaps_eV):
        classifier, figures = fit_classifier(data, seed=seed, progress=progress)
        learned = semiconductors(data)
    posterior = fit_gaps(
        method,
        members,
        learned,
        config,
        head=head,
        seed=seed,
        device=device,
        progress=progress,
        checkpoint=checkpoint,
    )
    return posterior if classifier is None else with_metals(posterior, classifier, figures)


def fit_gaps(
    method: Method,
    members: Sequence[Mapping[str, SourceModel]],
    data: TargetData,
    config: Any,
    *,
    head: str,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Fit a method from the output `head` of every network, and return the mixture.

    The posteriors of the networks have equal weights. The first network uses the given seed, the
    others use seeds that are derived from it. A method that takes all networks together returns one
    posterior. Where the data have a baseline, a straight line in it is fitted first, together with
    the first network's prediction, and the method learns the residuals. With `checkpoint` every
    network has its own file, from which a resumable method resumes.
    """
    if data.baseline:
        column = data.features.shape[1] - 1
        line, residuals_eV = fit_baseline(
            members[0][head],
            data.features,
            data.gaps_eV,
            column=column,
            with_source=method.transfers,
        )
        posterior = fit_gaps(
            method,
            members,
            TargetData(data.features[:, :column], residuals_eV, groups=data.groups),
            config,
            head=head,
            seed=seed,
            device=device,
            progress=progress,
            checkpoint=checkpoint,
        )
        return with_baseline(posterior, line, seed=seed)
    if method.fit_together is not None:
        return method.fit_together(
            members, data, config, head=head, seed=seed, device=device, progress=progress
        )
    posteriors = []
    for i, member in enumerate(members):
        member_progress = progress
        if len(members) > 1:
            member_progress = progress_of(f"network {i + 1} of {len(members)}", progress)
        posterior = method.fit_or_resume(
            member[head],
            data,
            config,
            seed=_member_seed(seed, i),
            device=device,
            progress=member_progress,
            checkpoint=None if checkpoint is None else checkpoint.of_part(i),
        )
        posteriors.append(posterior)
    return mix(posteriors)


def _member_seed(seed: int, i: int) -> int:
    """Return the seed of network i: the seed itself for the first, derived ones for the others."""
    if i == 0:
        return seed
    return int(np.random.SeedSequence([seed, i]).generate_state(1)[0] % 2**31)
