"""Elements that a descriptor lacks, and which it can be grown by: a vector of MBTR has a block for every element.

Loads no scipy before there is a descriptor to look at, as pages read it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bandgap.foundation.config import from_dict

if TYPE_CHECKING:
    from bandgap.descriptors.config import DescriptorConfig


def grown_descriptor(
    descriptor: "DescriptorConfig", elements: Collection[str]
) -> "DescriptorConfig":
    """Return the descriptor for these elements too; raises ConfigError for what is no chemical symbol.

    Parts behind the terms of MBTR keep the elements that they know; a descriptor without terms stays as it is.
    """
    if not descriptor.terms:
        return descriptor
    new = [element for element in elements if element not in descriptor.species]
    return replace(descriptor, species=(*descriptor.species, *new)) if new else descriptor


def elements_beyond(
    entry: Mapping[str, Any], elements: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return which elements a descriptor lacks, and which of these it cannot be grown by, from a manifest's entry.

    >>> elements_beyond({"composition": True}, ["Pb", "I", "Og"])
    ({'Og'}, {'Og'})
    """
    from bandgap.descriptors.config import DescriptorConfig

    descriptor = from_dict(DescriptorConfig, entry)
    lacking = set(elements) - set(descriptor.elements)
    return lacking, lacking - set(grown_descriptor(descriptor, lacking).elements)
