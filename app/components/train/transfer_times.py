"""Estimated times of the transfers that the form of the page Train can start."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from app.components.shared import stores
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import (
    Estimate,
    PastRun,
    Work,
    atoms_to_describe,
    atoms_with_levels,
    describe_seconds,
    estimate_transfer,
    past_transfers,
)
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.runs.requests import TransferRequest
from bandgap.transfer.shared.cost import Cost


class TransferTimes:
    """Estimated times of transfers from one source model to one data set.

    What all estimates need is read from the store once.

    Parameters
    ----------
    dataset, source
        The data set, and the source model.
    methods
        Methods of the catalogue by name.
    usable
        Number of structures that can be learned from.
    """

    def __init__(
        self, dataset: Dataset, source: Source, methods: Mapping[str, MethodEntry], *, usable: int
    ) -> None:
        self._dataset = dataset
        self._source = source
        self._methods = methods
        self._usable = usable

    def estimate(self, request: TransferRequest) -> Estimate | None:
        """Return the time of a transfer that also computes the descriptors."""
        return estimate_transfer(
            Work.of(request),
            self._costs,
            past=self._past,
            atoms=self._atoms,
            atom_s=describe_seconds(self._source.manifest.get("descriptor") or {}),
            levels_atoms=atoms_with_levels(
                stores.jobs(), self._dataset, self._source.id, request, total=self._usable
            ),
        )

    def estimates(self, requests: Sequence[TransferRequest]) -> dict[str, Estimate | None]:
        """Return the time of each transfer by the title of its method.

        The first transfer also computes the descriptors.
        """
        titles = [self._methods[str(request.method)].title for request in requests]
        first = {titles[0]: self.estimate(requests[0])} if requests else {}
        return first | {
            title: self.fit(Work.of(request))
            for title, request in zip(titles[1:], requests[1:], strict=True)
        }

    def fit(self, work: Work) -> Estimate | None:
        """Return the time of a transfer whose descriptors are computed."""
        return estimate_transfer(work, self._costs, past=self._past)

    @cached_property
    def _past(self) -> list[PastRun]:
        return past_transfers(stores.jobs())

    @cached_property
    def _costs(self) -> dict[str, Cost]:
        """Costs of the methods with known costs."""
        return {n: method.cost for n, method in self._methods.items() if method.cost is not None}

    @cached_property
    def _atoms(self) -> int:
        return atoms_to_describe(stores.jobs(), self._dataset, self._source.id)
