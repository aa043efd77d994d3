"""The origin of a run: the networks of a source, stored or with new elements, or no source."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.growing import grown_descriptor
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.model import SourceModel
from bandgap.sources.near_copies import near_copies_in_source
from bandgap.sources.new_elements import grown_members
from bandgap.sources.no_source import (
    descriptor_for_labelled,
    labelled_elements,
    no_source,
    potential_obstacle_for,
    refuse_descriptor_with_source,
)
from bandgap.sources.overlap import Overlap, load_keys, overlap
from bandgap.sources.sets import StoredSources, open_sources
from bandgap.sources.stored import source_fingerprint
from bandgap.structures import StructureRecord
from bandgap.transfer import Method, TargetData, get_method, without_source

Members = Sequence[Mapping[str, SourceModel]]
BLOCKS_STAY: Final = (
    "The graph blocks of the source model are not changed; only the layers above them are. This "
    "method treats every layer as one matrix that takes one row of features for a structure, but "
    "graph blocks take rows for all of its atoms and bonds."
)


@dataclass(frozen=True, eq=False)
class Origin:
    """The method of a run, and the stored source with its networks, if there is one.

    `descriptor` is that of the run's structures without electron levels: that of the source, grown
    where the method can learn new elements, or one made for the structures. `lacking` are the
    elements because of which a given source is not used, by a method that works without one.
    `known_elements` are the elements of a given source, which every method accepts; None without
    a source.
    """

    method: Method
    descriptor: DescriptorConfig
    sources: StoredSources | None = None
    stored: Members = ()
    lacking: tuple[str, ...] = ()
    known_elements: frozenset[str] | None = None
    kept_from_potential: str = ""  # why no potential is in a descriptor made for the structures

    def members(self, data: TargetData) -> Members:
        """Return the source models by output for each network, for the features of this target."""
        if self.sources is None:
            return [{"": no_source(self.descriptor, data.features, data.gaps_eV)}]
        return grown_members(self.stored, self.descriptor, data.features)

    def fitted_from(self, members: Members, head: str, data: TargetData) -> Members:
        """Return the networks to fit from.

        Of several outputs it is `head` alone, unless all outputs are fitted together.
        """
        if self.sources is None or not self.sources.has_several_heads:
            return members
        uses_all_outputs = self.method.together
        loaded = self.sources.load(None if uses_all_outputs else head, extras=not uses_all_outputs)
        return grown_members(loaded, self.descriptor, data.features)

    @property
    def warnings(self) -> list[str]:
        """Warnings on a source that is unused or partly fixed, and on an unused potential."""
        has_graph = self.sources is not None and self.descriptor.graph is not None
        texts = (
            left_aside_sentence(self.lacking) if self.lacking else "",
            self.kept_from_potential,
            BLOCKS_STAY if has_graph and self.method.moves_hidden_layers else "",
        )
        return [text for text in texts if text]

    @property
    def elements(self) -> list[str]:
        """Elements that any output of the source was trained on; empty without a source."""
        cards = [model.card for model in self.stored[0].values()] if self.stored else []
        return sorted(set().union(*(card.elements for card in cards)))

    def facts(
        self, head: str, models: Sequence[SourceModel], records: Sequence[StructureRecord]
    ) -> dict[str, Any]:
        """Return the manifest's entries: card, networks, fingerprint and overlap of the source.

        `models` are the networks of the output `head` from which the run was fitted.
        """
        card = to_dict(models[0].card)
        if self.sources is None:
            return {
                "head": head,
                "card": card,
                "members": 0,
                "fingerprint": NO_SOURCE,
                "overlap": None,
            }
        folder = self.sources.folder
        keys = load_keys(folder)
        near_copies = near_copies_in_source(folder, records)
        overlaps = Overlap(len(records)) if keys is None else overlap(keys, records)
        is_unknown = keys is None and near_copies is None
        source_species = self.stored[0][head].descriptor.species
        new_elements = [
            element for element in self.descriptor.species if element not in source_species
        ]
        if new_elements:
            # The fingerprint is that of the stored networks with extras, without which several
            # outputs were read.
            stored = (
                self.sources.load(head, verify=False)
                if self.sources.has_several_heads
                else self.stored
            )
            models = [member[head] for member in stored]
        return {
            "head": head,
            "card": card,
            "members": len(models),
            "fingerprint": fingerprint([source_fingerprint(model) for model in models]),
            "overlap": None if is_unknown else to_dict(replace(overlaps, near_copies=near_copies)),
        } | ({"new_elements": new_elements} if new_elements else {})


def origin_of(
    source_folder: Path | str | None,
    method: str,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: DescriptorConfig | None = None,
) -> Origin:
    """Return the origin of a run.

    Where the source lacks an element of the structures, a method without transfer uses a descriptor
    made for the structures. No structure is then left out because of a source that the method does
    not use.

    Parameters
    ----------
    source_folder
        Folder of the source, or None.
    method
        Name of the method.
    records, gaps_eV
        Structures and their gaps, (n,), in eV, NaN where there is none.
    descriptor
        Descriptor without a source. Default: the one for the elements of the structures.

    Raises
    ------
    ConfigError
        For a method that transfers where there is no source, and for a descriptor next to a source.
    """
    if source_folder is None:
        method_object = without_source(method)
        kept_from = "" if descriptor else potential_obstacle_for(records, gaps_eV)
        return Origin(
            method_object,
            descriptor or descriptor_for_labelled(records, gaps_eV),
            kept_from_potential=kept_from,
        )
    refuse_descriptor_with_source(descriptor)
    method_object = get_method(method)
    sources = open_sources(source_folder)
    stored = sources.load(
        verify=not sources.has_several_heads, extras=not sources.has_several_heads
    )
    source_descriptor = next(iter(stored[0].values())).descriptor
    elements = labelled_elements(records, gaps_eV)
    known_elements = frozenset(source_descriptor.elements)
    run_descriptor = descriptor_taken(source_descriptor, method_object, elements)
    if run_descriptor is None:
        return Origin(
            method_object,
            descriptor_for_labelled(records, gaps_eV),
            lacking=tuple(sorted(set(elements) - known_elements)),
            known_elements=known_elements,
            kept_from_potential=potential_obstacle_for(records, gaps_eV),
        )
    return Origin(method_object, run_descriptor, sources, stored, known_elements=known_elements)


def descriptor_taken(
    source_descriptor: DescriptorConfig, method: Method, elements: Collection[str]
) -> DescriptorConfig | None:
    """Return the descriptor in which a method uses structures of these elements with a source.

    The source's descriptor is grown where the method can learn new elements. The
    result is None where the source lacks an element and the method works without a source.
    """
    descriptor = source_descriptor
    if method.new_elements:
        descriptor = grown_descriptor(source_descriptor, elements)
    lacks_elements = bool(set(elements) - set(descriptor.elements))
    return None if lacks_elements and not method.transfers else descriptor


def left_aside_sentence(lacking: Collection[str]) -> str:
    """Return the warning that a method does not use a source, which lacks these elements."""
    return (
        f"The source model has no {', '.join(lacking)}. This method does without one: its "
        "descriptor is that for all elements of the structures, as with no source model."
    )
