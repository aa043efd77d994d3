"""Inputs of a comparison's methods where a source lacks elements, and common test structures.

The rules are those of a run. A method that can learn new elements uses every structure, in the
grown descriptor of the source. A method without transfer does not use the source. For the other
methods, structures with new elements are left out. All methods are tested on structures that each
of them uses.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table, elements_of, learnable, usable_rows
from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.growing import grown_descriptor
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.runs.origin import descriptor_taken, left_aside_sentence
from bandgap.sources.cards import left_out_sentence
from bandgap.sources.model import SourceModel
from bandgap.sources.new_elements import grown_members
from bandgap.sources.no_source import (
    descriptor_for_labelled,
    labelled_elements,
    no_source,
    potential_obstacle_for,
    refuse_descriptor_with_source,
)
from bandgap.sources.sets import open_sources
from bandgap.structures import StructureRecord
from bandgap.transfer import TargetData, get_method, without_source

Members = Sequence[Mapping[str, SourceModel]]

LEARNED: Final = "learned from by"
ASIDE: Final = "taken without the source model, in a descriptor for all elements, by"
LEFT_OUT: Final = "left out by"


@dataclass(frozen=True, eq=False)
class MethodInputs:
    """Inputs of a method: networks of a source (empty without one) and a table of labelled rows.

    `descriptor` is that of the table without electron levels. `warnings` say where a source or a
    potential is not used.
    """

    members: Members
    descriptor: DescriptorConfig
    table: Table
    warnings: tuple[str, ...] = ()

    def members_for(self, data: TargetData) -> Members:
        """Return the source models by output for each network, for the features of this target."""
        if not self.members:
            return [{"": no_source(self.descriptor, data.features, data.gaps_eV)}]
        return grown_members(self.members, self.descriptor, data.features)


@dataclass(frozen=True, eq=False)
class Compared:
    """Inputs of every method of a comparison, by name, and of the references without a fit.

    `reference` are the inputs of the references.

    `n_labelled` is the number of usable labelled structures. `lacking` counts those with an element
    that the source lacks, by element. `unable` are requested methods that can use too few
    structures.
    """

    reference: MethodInputs
    n_labelled: int
    by_method: Mapping[str, MethodInputs] = field(default_factory=dict)
    lacking: Mapping[str, int] = field(default_factory=dict)
    unable: tuple[str, ...] = ()

    def of(self, method: str) -> MethodInputs:
        """Return the inputs of a method."""
        return self.by_method.get(method, self.reference)

    @property
    def distinct(self) -> list[MethodInputs]:
        """The inputs without duplicates, those of the references first."""
        return list(
            {id(inputs): inputs for inputs in (self.reference, *self.by_method.values())}.values()
        )

    @property
    def common(self) -> list[str]:
        """Ids of the structures that every method uses, in the order of the rows."""
        first, *other_inputs = self.distinct
        id_sets = [set(inputs.table.ids) for inputs in other_inputs]
        return [id_ for id_ in first.table.ids if all(id_ in ids for ids in id_sets)]

    @property
    def tested_on(self) -> str:
        """A fingerprint of the ids of the test candidates, "" if all labelled structures are."""
        common = self.common
        return "" if len(common) == self.n_labelled else fingerprint(sorted(common))

    def left_out(self, n_given: int) -> list[str]:
        """Return a sentence on left-out structures for every table that leaves some out."""
        facts_by_table = [
            inputs.table.facts(n_given=n_given, of_source=bool(inputs.members))
            | {"descriptor": to_dict(inputs.descriptor)}
            for inputs in self.distinct
        ]
        return list(
            dict.fromkeys(text for facts in facts_by_table if (text := left_out_sentence(facts)))
        )

    @property
    def sentence(self) -> str:
        """The test structures, and how each method treats elements that the source lacks."""
        n_common = len(self.common)
        is_all = n_common == self.n_labelled
        pool = f"all {n_common:,}" if is_all else f"the {n_common:,} of {self.n_labelled:,}"
        text = (
            "Every method was tested on the same structures in each split, drawn from "
            f"{pool} labelled ones"
        )
        if not self.lacking:
            return f"{text}."
        groups: dict[str, list[str]] = {}
        for name, inputs in self.by_method.items():
            groups.setdefault(_treatment(inputs, self.lacking), []).append(name)
        missing = ", ".join(f"no {symbol} (in {count:,})" for symbol, count in self.lacking.items())
        treatments = "; ".join(
            f"{treatment} {', '.join(names)}" for treatment, names in groups.items()
        )
        return (
            f"{text}{'' if is_all else ' that all of them take'}. The source model has {missing}. "
            f"Structures with such elements are {treatments}."
        )


def tables_for(
    methods: Collection[str],
    source_folder: Path | str | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    head: str | None = None,
    descriptor: DescriptorConfig | None = None,
    levels: ElectronLevels = "none",
    min_structures: int = 0,
    **computing: Any,
) -> Compared:
    """Return the inputs of methods from a source and labelled records.

    Parameters
    ----------
    methods
        Names of the methods.
    source_folder
        Folder of the source, or None.
    records, gaps_eV
        Structures and their gaps, (n,), in eV, NaN where there is none.
    head
        Output of the source to load. Default: all.
    descriptor
        Descriptor without a source. Default: the one for the elements of the structures.
    levels
        Electron levels that the tables contain.
    min_structures
        Number of structures that a method must be able to use; other methods are `unable`.
    computing
        Further arguments of `learnable`.

    Raises
    ------
    InputError
        Where a method has no usable structure.
    ConfigError
        For a method that transfers where there is no source, and for a descriptor next to a source.
    """
    members: Members = ()
    if source_folder is None:
        for name in methods:
            without_source(name)
        base_descriptor = descriptor or descriptor_for_labelled(records, gaps_eV)
    else:
        refuse_descriptor_with_source(descriptor)
        members = open_sources(source_folder).load(head)
        base_descriptor = next(iter(members[0].values())).descriptor
    elements = labelled_elements(records, gaps_eV)
    lacking = set(elements) - set(base_descriptor.elements) if members else set()
    inputs_by_descriptor: dict[DescriptorConfig | None, MethodInputs] = {}

    def inputs_for(source_descriptor: DescriptorConfig | None) -> MethodInputs:
        """Return the inputs with a descriptor of the source, or without the source (None)."""
        if source_descriptor not in inputs_by_descriptor:
            used = source_descriptor or descriptor_for_labelled(records, gaps_eV)
            used_members = members if source_descriptor is not None else ()
            table = learnable(
                records,
                gaps_eV,
                descriptor=replace(used, levels=levels),
                of_source=bool(used_members),
                **computing,
            )
            no_source_text = (
                left_aside_sentence(sorted(lacking)) if source_descriptor is None else ""
            )
            no_potential_text = (
                "" if used_members or descriptor else potential_obstacle_for(records, gaps_eV)
            )
            warnings = tuple(text for text in (no_source_text, no_potential_text) if text)
            inputs_by_descriptor[source_descriptor] = MethodInputs(
                used_members, used, table, warnings
            )
        return inputs_by_descriptor[source_descriptor]

    labelled = [records[row] for row in usable_rows(records, gaps_eV)]
    descriptors = {
        name: descriptor_taken(base_descriptor, get_method(name), elements)
        if members
        else base_descriptor
        for name in methods
    }
    unable = [
        name
        for name, method_descriptor in descriptors.items()
        if method_descriptor and lacking and _n_usable(labelled, method_descriptor) < min_structures
    ]
    by_method = {
        name: inputs_for(method_descriptor)
        for name, method_descriptor in descriptors.items()
        if name not in unable
    }
    candidates = [inputs for inputs in by_method.values() if inputs.members or not members]
    if candidates:
        reference = max(candidates, key=lambda inputs: len(inputs.table))
    else:
        reference = _reference_inputs(inputs_for, base_descriptor, elements)
    counts = Counter(symbol for record in labelled for symbol in elements_of(record) & lacking)
    return Compared(reference, len(labelled), by_method, dict(counts.most_common()), tuple(unable))


def _reference_inputs(
    inputs_for: Callable[[DescriptorConfig | None], MethodInputs],
    descriptor: DescriptorConfig,
    elements: Collection[str],
) -> MethodInputs:
    """Return the inputs of the references where no method uses the source.

    These are the source with its grown descriptor, or no source where the descriptor cannot be
    grown.
    """
    grown = grown_descriptor(descriptor, elements)
    return inputs_for(grown if set(elements) <= set(grown.elements) else None)


def _n_usable(records: Sequence[StructureRecord], descriptor: DescriptorConfig) -> int:
    return sum(elements_of(record) <= set(descriptor.elements) for record in records)


def _treatment(inputs: MethodInputs, lacking: Collection[str]) -> str:
    if not inputs.members:
        return ASIDE
    return LEARNED if set(lacking) <= set(inputs.descriptor.elements) else LEFT_OUT
