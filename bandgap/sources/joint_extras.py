"""The extras of a source of several sets: of every output as of a plain source, on the rows of its own set.

An output with the shared hidden layers is a network of its own (`sources.joint`); what the Bayesian transfers need to
know of its weights comes from the rows of its set alone, standardised as in the training.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.training import RowSplit, split_rows
from bandgap.sources.joint import member_start
from bandgap.sources.model import SourceModel, checked, with_parts
from bandgap.sources.parts import used_features


@dataclass(frozen=True)
class Head:
    """One output of a network with several: its set's name and number (from 0), and what gives the split again.

    `sizes` are the numbers of rows of all sets, `share` is that of the rows held out.
    """

    name: str
    output: int
    sizes: tuple[int, ...]
    share: float


def with_head_extras(
    source: SourceModel,
    x: Tensor,
    y: Tensor,
    *,
    head: Head,
    member: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Return the source model of one output of a member (from 0) with the extras that its config asks for.

    Rows x (n, m) and y (n,) are the set's, in the order of the training, from `source_parts.used_rows`: they are the
    same for all members that see the features in one power. Raises InputError when they are not those of the training.
    """
    split = None
    if len(y) == head.sizes[head.output]:
        split = member_splits(source, head, member=member)[head.output]
    split = checked(split, source, x, y, what=f"the set {head.name!r} of network {member + 1}")
    seed = int(np.random.SeedSequence([source.card.seed, member, head.output]).generate_state(1)[0])
    note = progress_of(f"set {head.name}, network {member + 1}", progress)
    return with_parts(source, x, y, split=split, seed=seed, device=device, progress=note)


def member_splits(source: SourceModel, head: Head, *, member: int) -> list[RowSplit]:
    """Return the split of the rows of every set in the training of a member (from 0)."""
    network = NetworkConfig(int(used_features(source.params).sum()), source.network.hidden, len(head.sizes))
    generator, _ = member_start(network, seed=source.card.seed, member=member)
    return [split_rows(n, share=head.share, generator=generator) for n in head.sizes]
