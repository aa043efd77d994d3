"""What a run starts from: the networks of a source, as stored or grown by new elements, or no source at all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import MBTRConfig
from bandgap.descriptors.growing import grown_descriptor
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.model import SourceModel
from bandgap.sources.new_elements import grown_members
from bandgap.sources.no_source import (
    elements_to_learn,
    kept_from_potential_of,
    no_source,
    own_descriptor,
    refuse_beside_source,
)
from bandgap.sources.overlap import load_known, overlap
from bandgap.sources.sets import StoredSources, open_sources
from bandgap.sources.stored import source_fingerprint
from bandgap.structures import StructureRecord
from bandgap.transfer import Method, TargetData, get_method, without_source

Members = Sequence[Mapping[str, SourceModel]]
BLOCKS_STAY: Final = (
    "The graph blocks of the source model stay as they were trained; the layers above them move. This method holds "
    "every layer as one matrix that takes one row of features for a structure, and graph blocks work on rows for all "
    "of its atoms and bonds."
)


@dataclass(frozen=True, eq=False)
class Origin:
    """The method, the stored source with its networks as they were read (None and empty where there is none).

    `descriptor` is that of the run's structures without electron levels: the source's, grown where the method learns
    of new elements, or the structures' own. `lacking` are the elements for which a source that was given is left aside,
    as the method does without one. `known` are the elements of a source that was given, which every method takes; None
    where there is no source.
    """

    method: Method
    descriptor: MBTRConfig
    sources: StoredSources | None = None
    stored: Members = ()
    lacking: tuple[str, ...] = ()
    known: frozenset[str] | None = None
    kept_from_potential: str = ""  # what is said of it, where a descriptor was made for the structures

    def members(self, data: TargetData) -> Members:
        """Return the source models by output for each network, for the features of this target."""
        if self.sources is None:
            return [{"": no_source(self.descriptor, data.features, data.gaps_eV)}]
        return grown_members(self.stored, self.descriptor, data.features)

    def fitted_from(self, members: Members, head: str, data: TargetData) -> Members:
        """Return what the method is fitted from: of several outputs the one, with all parts that it has."""
        if self.sources is None or not self.sources.several:
            return members
        together = self.method.fit_together is not None
        loaded = self.sources.load(None if together else head, extras=not together)
        return grown_members(loaded, self.descriptor, data.features)

    @property
    def warnings(self) -> list[str]:
        """What the run says of a source that was given and has no part in it, or of which a part does not move, and of
        a potential that has no part in the descriptor.
        """
        given_graph = self.sources is not None and self.descriptor.graph is not None
        said = (
            left_aside_sentence(self.lacking) if self.lacking else "",
            self.kept_from_potential,
            BLOCKS_STAY if given_graph and self.method.moves_hidden_layers else "",
        )
        return [text for text in said if text]

    @property
    def elements(self) -> list[str]:
        """Elements that the source was trained on, by any of its outputs; none without a source."""
        cards = [model.card for model in self.stored[0].values()] if self.stored else []
        return sorted(set().union(*(card.elements for card in cards)))

    def facts(self, head: str, models: Sequence[SourceModel], records: Sequence[StructureRecord]) -> dict[str, Any]:
        """Return what the manifest says of the source: card, content, networks, what it shares with the structures.

        `models` are those of the output `head` that were fitted from.
        """
        card = to_dict(models[0].card)
        if self.sources is None:
            return {"head": head, "card": card, "members": 0, "fingerprint": NO_SOURCE, "overlap": None}
        known, own = load_known(self.sources.folder), self.stored[0][head].descriptor.species
        grown = [element for element in self.descriptor.species if element not in own]
        if (
            grown
        ):  # the content is that of the networks before they grew; of several outputs they were read without extras
            whole = self.sources.load(head, verify=False) if self.sources.several else self.stored
            models = [member[head] for member in whole]
        return {
            "head": head,
            "card": card,
            "members": len(models),
            "fingerprint": fingerprint([source_fingerprint(model) for model in models]),
            "overlap": None if known is None else to_dict(overlap(known, records)),
        } | ({"new_elements": grown} if grown else {})


def origin_of(
    source_folder: Path | str | None,
    method: str,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: MBTRConfig | None = None,
) -> Origin:
    """Return what a run of a method on these records with gaps (n,) in eV starts from.

    A method without transfer starts from the structures' own descriptor where that of the source lacks an element of
    theirs, so that none is left out for a source that has no part in it.
    Raises ConfigError for a method that transfers where there is no source (None), for a descriptor beside a source.
    """
    if source_folder is None:
        chosen = without_source(method)
        kept_from = "" if descriptor else kept_from_potential_of(records, gaps_eV)
        return Origin(chosen, descriptor or own_descriptor(records, gaps_eV), kept_from_potential=kept_from)
    refuse_beside_source(descriptor)
    chosen, sources = get_method(method), open_sources(source_folder)
    stored = sources.load(verify=not sources.several, extras=not sources.several)
    own, elements = next(iter(stored[0].values())).descriptor, elements_to_learn(records, gaps_eV)
    known, taken = frozenset(own.elements), descriptor_taken(own, chosen, elements)
    if taken is None:
        lacking = tuple(sorted(set(elements) - known))
        kept_from = kept_from_potential_of(records, gaps_eV)
        return Origin(
            chosen, own_descriptor(records, gaps_eV), lacking=lacking, known=known, kept_from_potential=kept_from
        )
    return Origin(chosen, taken, sources, stored, known=known)


def descriptor_taken(own: MBTRConfig, method: Method, elements: Collection[str]) -> MBTRConfig | None:
    """Return the descriptor of a source in which a method takes structures of these elements.

    It is grown where the method learns of new elements; None where the method does without a source that lacks some.
    """
    taken = grown_descriptor(own, elements) if method.new_elements else own
    return None if set(elements) - set(taken.elements) and not method.transfers else taken


def left_aside_sentence(lacking: Collection[str]) -> str:
    """Say that a method does without the source that was given, as this lacks elements of the structures."""
    return (
        f"The source model has no {', '.join(lacking)}. This method does without one: its descriptor is that for all "
        "elements of the structures, as with no source model."
    )
