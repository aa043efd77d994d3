"""What a method starts from in the benchmarks on crystals, and its fit."""

from collections.abc import Callable
from dataclasses import dataclass

from bandgap.descriptors import DescriptorConfig
from bandgap.foundation.config import fingerprint
from bandgap.posterior import Posterior
from bandgap.runs.fitting import fit_members
from bandgap.runs.origin import Members
from bandgap.sources.new_elements import grown_members
from bandgap.sources.no_source import no_source
from bandgap.sources.stored import source_fingerprint
from bandgap.transfer import Method, TargetData
from bandgap.transfer.shared.method import Fitting


@dataclass(frozen=True, eq=False)
class MethodStart:
    """The descriptor of the structures, and the networks of a source, none without one."""

    descriptor: DescriptorConfig
    members: Members = ()

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all networks, "" without a source."""
        if not self.members:
            return ""
        return fingerprint(
            [source_fingerprint(model) for member in self.members for model in member.values()]
        )

    def posterior(
        self,
        method: Method,
        data: TargetData,
        *,
        seed: int,
        fit: Callable[..., Posterior] = fit_members,
    ) -> Posterior:
        """Fit a method and return its posterior.

        The networks are extended to elements of the data that they lack. Features after those of
        the descriptor are electron levels. `fit` is `fit_members`, or `fit_gaps` for zeros that
        are learned as any other gap.
        """
        members = grown_members(self.members, self.descriptor, data.features) or [
            {"none": no_source(self.descriptor, data.features, data.gaps_eV)}
        ]
        head = next(iter(members[0]))
        return fit(method, data, method.configure({}), Fitting(seed, networks=members, head=head))
