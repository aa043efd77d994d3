"""Named settings of descriptors, and the descriptor of a data set without a source model.

The settings were chosen by errors of test structures; the tables are in
docs/explanation/descriptors.md.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from bandgap.descriptors.block_settings import Soap
from bandgap.descriptors.config import DescriptorConfig, Term
from bandgap.descriptors.element_properties import TABLE_ELEMENTS
from bandgap.descriptors.potentials import NONE
from bandgap.foundation.errors import ConfigError

# Largest number of elements for which a data set without a source is described by MBTR.
MAX_MBTR_ELEMENTS = 16

K1 = Term(function="atomic_number", minimum=0.0, maximum=120.0, n=36, sigma=4.0)
K2 = Term(
    function="inverse_distance",
    minimum=0.25,
    maximum=1.1,
    n=36,
    sigma=0.015,
    weighting="exp",
    cutoff_angstrom=3.5,
    threshold=0.001,
)

# fmt: off
_OE62_ELEMENTS = (
    "H", "Li", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Te", "I",
)
# fmt: on

PRESETS: dict[str, DescriptorConfig] = {
    "thesis-1260": DescriptorConfig(species=("H", "C", "N", "O", "F", "S", "Cl"), k1=K1, k2=K2),
    "oe62-16": DescriptorConfig(species=_OE62_ELEMENTS, k1=K1, k2=K2),
}
PRESETS["oe62-16-roots"] = replace(PRESETS["oe62-16"], roots=True, size=True, neutral=True)
PRESETS["any-elements"] = DescriptorConfig(composition=True, neighbours=True, soap=Soap())
for _name in ("chgnet", "chgnet-two-layers", "sevennet-mf-0"):
    PRESETS[_name] = DescriptorConfig(potential=_name)
_WITH_NEIGHBOURS = DescriptorConfig(composition=True, neighbours=True)
PRESETS["composition-neighbours"] = replace(_WITH_NEIGHBOURS, fractions=True)
PRESETS["composition-neighbours-chgnet"] = replace(_WITH_NEIGHBOURS, potential="chgnet-two-layers")
PRESETS["bonds"] = DescriptorConfig(bonds=True)


def config_for(
    *, preset: str | None = None, species: Sequence[str] | None = None
) -> DescriptorConfig:
    """Return the settings of a preset, or MBTR terms for the user's own species.

    Give exactly one of both.

    Parameters
    ----------
    preset
        A key of `PRESETS`.
    species
        Chemical symbols, in any order.

    Raises
    ------
    ConfigError
        For an unknown preset or element, for an element given twice, for a text instead of a list
        of symbols, and if none or both are given.
    """
    names = ", ".join(PRESETS)
    if (preset is None) == (species is None):
        arguments = "neither preset nor species" if preset is None else "both preset and species"
        raise ConfigError(
            f"{arguments} given. Give one: a preset ({names}) or chemical symbols, such as H C N O."
        )
    if isinstance(species, str):
        raise ConfigError(
            f"species is the text {species!r}. Give a list of symbols, such as ['H', 'Cl']."
        )
    if species is not None:
        return DescriptorConfig(species=tuple(species), k1=K1, k2=K2)
    if preset not in PRESETS:
        raise ConfigError(
            f"preset is {preset!r}. Accepted: {names}; or give the species themselves."
        )
    return PRESETS[preset]


def descriptor_for(
    elements: Collection[str], *, potential: str = NONE, second_potential: str = NONE
) -> DescriptorConfig:
    """Return the descriptor of a data set without a source model.

    For up to 16 elements this is MBTR with SOAP. For more it is composition and neighbours, whose
    number of features does not grow with the number of elements.

    Parameters
    ----------
    elements
        Chemical symbols of all structures.
    potential
        Pretrained potential whose features are added (`potentials.potentials_for`).
    second_potential
        Another one.

    Raises
    ------
    ConfigError
        If there are no elements, or one is no chemical symbol.
    """
    species = config_for(species=tuple(dict.fromkeys(elements))).species
    if len(species) > MAX_MBTR_ELEMENTS:
        return DescriptorConfig(
            composition=True,
            neighbours=True,
            potential=potential,
            second_potential=second_potential,
        )
    soap = Soap() if set(species) <= set(TABLE_ELEMENTS) else None
    return DescriptorConfig(
        species,
        K1,
        K2,
        roots=True,
        soap=soap,
        potential=potential,
        second_potential=second_potential,
    )
