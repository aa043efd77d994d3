"""Elements that a descriptor lacks, and those that can be added: MBTR has grids per element.

Loads no SciPy before a descriptor is built, because the dashboard imports this module.
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
    """Return the descriptor with these elements added to its MBTR terms.

    The other blocks keep their elements, and a descriptor without terms is returned unchanged.
    Raises ConfigError if one of the elements is no chemical symbol.
    """
    if not descriptor.terms:
        return descriptor
    new = [element for element in elements if element not in descriptor.species]
    return replace(descriptor, species=(*descriptor.species, *new)) if new else descriptor


def elements_beyond(
    entry: Mapping[str, Any], elements: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return the elements that a descriptor lacks, and those of them that cannot be added to it.

    Parameters
    ----------
    entry
        The descriptor's settings, as in a manifest.
    elements
        Chemical symbols.

    Examples
    --------
    >>> elements_beyond({"composition": True}, ["Pb", "I", "Og"])
    ({'Og'}, {'Og'})
    """
    from bandgap.descriptors.config import DescriptorConfig

    descriptor = from_dict(DescriptorConfig, entry)
    lacking = set(elements) - set(descriptor.elements)
    return lacking, lacking - set(grown_descriptor(descriptor, lacking).elements)
