"""What the methods of a comparison are given where a source lacks elements, and on which structures all are judged.

As in a run of its own, a method that learns of new elements takes every structure in the source's grown descriptor, one
without transfer does without the source, and of the others such structures are left out. All are then tested on
structures that each of them takes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table, elements_of, learnable
from bandgap.descriptors import MBTRConfig
from bandgap.descriptors.electron_levels import Levels
from bandgap.descriptors.growing import grown_descriptor
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.runs.origin import descriptor_taken, left_aside_sentence
from bandgap.sources.cards import left_out_sentence
from bandgap.sources.model import SourceModel
from bandgap.sources.new_elements import grown_members
from bandgap.sources.no_source import (
    elements_to_learn,
    kept_from_potential_of,
    no_source,
    own_descriptor,
    refuse_beside_source,
)
from bandgap.sources.sets import open_sources
from bandgap.structures import StructureRecord
from bandgap.transfer import TargetData, get_method, without_source

Members = Sequence[Mapping[str, SourceModel]]

LEARNED: Final = "learned from by"
ASIDE: Final = "taken without the source model, in a descriptor for all elements, by"
LEFT_OUT: Final = "left out by"


@dataclass(frozen=True, eq=False)
class Given:
    """What a method starts from and learns from: networks of a source (none: without one), and a table.

    `descriptor` is that of the table without electron levels; `warnings` are what a fit says of a source or a potential
    left aside.
    """

    members: Members
    descriptor: MBTRConfig
    table: Table
    warnings: tuple[str, ...] = ()

    def members_for(self, data: TargetData) -> Members:
        """Return the source models by output for each network, for the features of this target."""
        if not self.members:
            return [{"": no_source(self.descriptor, data.features, data.gaps_eV)}]
        return grown_members(self.members, self.descriptor, data.features)


@dataclass(frozen=True, eq=False)
class Compared:
    """What every method of a comparison is given, by name, and the rows beside them that need no fit (`beside`).

    `n_labelled` structures could be learned from; `lacking` counts those that hold an element that the source lacks.
    `unable` are the methods that were asked for and take too few.
    """

    beside: Given
    n_labelled: int
    by_method: Mapping[str, Given] = field(default_factory=dict)
    lacking: Mapping[str, int] = field(default_factory=dict)
    unable: tuple[str, ...] = ()

    def of(self, method: str) -> Given:
        """Return what a method is given."""
        return self.by_method.get(method, self.beside)

    @property
    def distinct(self) -> list[Given]:
        """All that is given, each thing once."""
        return list({id(given): given for given in (self.beside, *self.by_method.values())}.values())

    @property
    def common(self) -> list[str]:
        """Ids of the structures that every method takes, in the order of the rows."""
        first, *others = self.distinct
        taken = [set(given.table.ids) for given in others]
        return [name for name in first.table.ids if all(name in ids for ids in taken)]

    @property
    def tested_on(self) -> str:
        """Return "" where test rows are drawn from all labelled structures, else a fingerprint of which these are."""
        common = self.common
        return "" if len(common) == self.n_labelled else fingerprint(sorted(common))

    def left_out(self, n_given: int) -> list[str]:
        """Say which of the `n_given` structures are left out, of every table that leaves some out."""
        facts = [
            given.table.facts(n_given=n_given, of_source=bool(given.members))
            | {"descriptor": to_dict(given.descriptor)}
            for given in self.distinct
        ]
        return list(dict.fromkeys(text for found in facts if (text := left_out_sentence(found))))

    @property
    def sentence(self) -> str:
        """Say on which structures every method is judged, and what each does with elements that the source lacks."""
        common, most = len(self.common), self.n_labelled
        drawn = f"all {common:,}" if common == most else f"the {common:,} of {most:,}"
        text = f"Every method was judged on the same structures in each split, drawn from {drawn} labelled ones"
        if not self.lacking:
            return f"{text}."
        groups: dict[str, list[str]] = {}
        for name, given in self.by_method.items():
            groups.setdefault(_does(given, self.lacking), []).append(name)
        lacks = ", ".join(f"no {symbol} (in {count:,})" for symbol, count in self.lacking.items())
        done = "; ".join(f"{does} {', '.join(names)}" for does, names in groups.items())
        return (
            f"{text}{' that all of them take' if common < most else ''}. The source model has {lacks}. Structures with "
            f"such elements are {done}."
        )


def tables_for(
    methods: Collection[str],
    source_folder: Path | str | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    head: str | None = None,
    own: MBTRConfig | None = None,
    levels: Levels = "none",
    at_least: int = 0,
    **computing: Any,
) -> Compared:
    """Return what these methods are given of a source and of records with gaps (n,) in eV, NaN where there is none.

    Without a source (None) `own` is the descriptor, None the one for the structures' elements. Methods that take fewer
    than `at_least` structures are left out (`unable`). `computing` is passed on to `learnable`, which raises InputError
    where a method is left without structures. Raises ConfigError for a method that transfers where there is no source,
    and for a descriptor beside one.
    """
    members: Members = ()
    if source_folder is None:
        for name in methods:
            without_source(name)
        known = own or own_descriptor(records, gaps_eV)
    else:
        refuse_beside_source(own)
        members = open_sources(source_folder).load(head)
        known = next(iter(members[0].values())).descriptor
    elements = elements_to_learn(records, gaps_eV)
    lacking = set(elements) - set(known.elements) if members else set()
    tables: dict[MBTRConfig | None, Given] = {}

    def given(descriptor: MBTRConfig | None) -> Given:
        if descriptor not in tables:
            used = own_descriptor(records, gaps_eV) if descriptor is None else descriptor
            kept = members if descriptor is not None else ()
            table = learnable(
                records, gaps_eV, descriptor=replace(used, levels=levels), of_source=bool(kept), **computing
            )
            aside = left_aside_sentence(sorted(lacking)) if descriptor is None else ""
            few = "" if kept or own else kept_from_potential_of(records, gaps_eV)
            tables[descriptor] = Given(kept, used, table, tuple(text for text in (aside, few) if text))
        return tables[descriptor]

    labelled = _labelled(records, gaps_eV)
    taken = {name: descriptor_taken(known, get_method(name), elements) if members else known for name in methods}
    unable = [name for name, used in taken.items() if used and lacking and _n_taken(labelled, used) < at_least]
    by_method = {name: given(descriptor) for name, descriptor in taken.items() if name not in unable}
    of_source = [found for found in by_method.values() if found.members or not members]
    beside = max(of_source, key=lambda found: len(found.table)) if of_source else _without_fit(given, known, elements)
    counts = Counter(symbol for record in labelled for symbol in elements_of(record) & lacking)
    return Compared(beside, len(labelled), by_method, dict(counts.most_common()), tuple(unable))


def _without_fit(given: Callable[[MBTRConfig | None], Given], known: MBTRConfig, elements: Collection[str]) -> Given:
    """Return what rows without a fit are given where no method takes the source: it grown, none where it cannot be."""
    grown = grown_descriptor(known, elements)
    return given(grown if set(elements) <= set(grown.elements) else None)


def _labelled(records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]) -> list[StructureRecord]:
    """Return the records that are not refused and have a gap (n,) in eV."""
    return [r for r, gap in zip(records, gaps_eV, strict=True) if r.status != "refused" and np.isfinite(gap)]


def _n_taken(records: Sequence[StructureRecord], descriptor: MBTRConfig) -> int:
    return sum(elements_of(record) <= set(descriptor.elements) for record in records)


def _does(given: Given, lacking: Collection[str]) -> str:
    if not given.members:
        return ASIDE
    return LEARNED if set(lacking) <= set(given.descriptor.elements) else LEFT_OUT
