"""The mixture, with equal weights, of the posteriors from several source networks.

Members are fitted independently. So the draws contain the chains of all members, but convergence is
judged within each member.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError
from bandgap.posterior.protocol import (
    Diagnostics,
    Floats,
    Posterior,
    PredictiveDraws,
)


@dataclass(frozen=True, eq=False)
class PosteriorMixture:
    """Posteriors of one method from each network of a source, (member * chain, draw, ...).

    Raises InputError if their numbers of chains or draws differ.
    """

    kind: ClassVar[str] = "mixture"

    members: tuple[Posterior, ...]
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __post_init__(self) -> None:
        sizes = {(m.n_chains, m.n_draws) for m in self.members}
        if len(sizes) != 1:
            raise InputError(
                f"members of a mixture have (chains, draws) {sorted(sizes)}. Accepted: the same "
                "for all."
            )

    @property
    def n_chains(self) -> int:
        return sum(m.n_chains for m in self.members)

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return self.members[0].n_draws

    @property
    def n_members(self) -> int:
        return len(self.members)

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (member * chain, draw, n), in eV, for raw features (n, p)."""
        return np.concatenate([m.mean_draws_eV(features) for m in self.members])

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return the draws of all members; each member has the same number of components."""
        parts = [m.predictive_draws(features) for m in self.members]
        return PredictiveDraws(
            np.concatenate([p.means_eV for p in parts]),
            np.concatenate([p.centres_eV for p in parts]),
            np.concatenate([p.wide_sds_eV for p in parts]),
        )

    def summaries(self) -> dict[str, Floats]:
        """Return the draws that every member has, in one array by name."""
        parts = [m.summaries() for m in self.members]
        shared = [name for name in parts[0] if all(name in part for part in parts)]
        return {name: np.concatenate([part[name] for part in parts]) for name in shared}


def mix(members: Sequence[Posterior]) -> Posterior:
    """Return the mixture with combined diagnostics; a single member is returned unchanged.

    R-hat is the largest and ESS the smallest of any member, divergences are summed, and other
    figures are means.
    """
    if len(members) == 1:
        return members[0]
    names = dict.fromkeys(name for m in members for name in m.diagnostics.figures)
    figures = {
        name: _combined_figure(name, [m.diagnostics.figures for m in members]) for name in names
    }
    warnings = [
        f"Source network {i + 1} of {len(members)}: {text}"
        for i, m in enumerate(members)
        for text in m.diagnostics.warnings
    ]
    return PosteriorMixture(
        tuple(members), Diagnostics(figures, tuple(warnings), _combined_records(members))
    )


def _combined_records(members: Sequence[Posterior]) -> dict[str, Floats]:
    """Return the records that all members have in the same shape, for all chains."""
    records = [m.diagnostics.record for m in members]
    shapes = {
        name: {record[name].shape[1:] for record in records if name in record}
        for name in records[0]
    }
    shared = [
        name
        for name in records[0]
        if all(name in record for record in records) and len(shapes[name]) == 1
    ]
    return {name: np.concatenate([record[name] for record in records]) for name in shared}


def _combined_figure(name: str, figures: Sequence[Mapping[str, float]]) -> float:
    values = [f[name] for f in figures if name in f]
    if name.startswith("divergences"):
        return float(np.sum(values))
    if name.startswith("rhat"):
        return float(np.max(values))
    return float(np.min(values) if name.startswith("ess") else np.mean(values))
