"""Electron levels as features: their methods, and the gaps that they must not be used for."""

import typing
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import tight_binding
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.blocks import Block, NoFeaturesError
from bandgap.foundation.errors import ConfigError, InputError

if TYPE_CHECKING:
    from ase import Atoms

METHOD: Final = "GFN1-xTB"
# Of a supercell where the cell is small, which samples more k points than Gamma.
SUPERCELL: Final = "GFN1-xTB-supercell"
# Of every molecule of the crystal alone (`molecule_levels`), for hybrid crystals.
MOLECULES: Final = "GFN1-xTB-molecules"
# Of every molecule by Hückel's method, from its bonds alone, in milliseconds (`huckel`).
HUECKEL: Final = "Hueckel-molecules"
# METHOD, then HUECKEL.
BOTH: Final = "GFN1-xTB-and-Hueckel"


def checked_levels(levels: str) -> ElectronLevels:
    """Return the name as a method of electron levels; raise ConfigError if there is none."""
    if levels not in typing.get_args(ElectronLevels):
        raise ConfigError(
            f"levels is {levels!r}. Accepted: {', '.join(typing.get_args(ElectronLevels))}."
        )
    return typing.cast(ElectronLevels, levels)


def electron_levels(atoms: "Atoms", levels: ElectronLevels) -> NDArray[np.float64]:
    """Return gap, HOMO and LUMO (3,) in eV, of both ways for `BOTH` (6,).

    Raises NoFeaturesError if the structure has none.
    """
    assert levels != "none"  # whose width is 0, so that this function is not called
    if levels == HUECKEL:
        return _huckel_levels(atoms)
    if levels == BOTH:  # the quick ones first, which may refuse the structure
        of_bonds = _huckel_levels(atoms)
        return np.concatenate([electron_levels(atoms, METHOD), of_bonds])
    try:
        if levels == MOLECULES:
            # Imports ASE, which the dashboard must not load.
            from bandgap.descriptors.molecule_levels import molecule_levels_eV

            return molecule_levels_eV(atoms, method=METHOD)
        return tight_binding.levels_eV(atoms, method=METHOD, supercell=levels == SUPERCELL)
    except tight_binding.NoLevelsError as error:
        raise NoFeaturesError(f"has no {METHOD} levels: {error}.") from error


def _huckel_levels(atoms: "Atoms") -> NDArray[np.float64]:
    from bandgap.descriptors.bond_orders import NoBondsError
    from bandgap.descriptors.huckel import huckel_levels_eV

    try:
        return huckel_levels_eV(atoms)
    except NoBondsError as error:
        raise NoFeaturesError(f"has no levels by Hückel's method: {error}.") from error


def check_installed(levels: ElectronLevels) -> None:
    """Raise ConfigError if the package that computes these levels is not installed."""
    if levels != HUECKEL:
        tight_binding.check_installed()


def n_levels(levels: ElectronLevels) -> int:
    """Return the number of features of these levels; the gap is the first of them."""
    if levels == "none":
        return 0
    return 6 if levels == BOTH else 3


def tight_binding_gaps_problem(level_of_theory: str) -> str:
    """Return why gaps of this level of theory cannot use electron levels as features, or ""."""
    if "xtb" not in level_of_theory.lower():
        return ""
    return (
        f"The gaps are of {level_of_theory}, and {METHOD} levels would nearly be the answer: "
        "the errors would say nothing of other gaps. Leave the levels out."
    )


def refuse_tight_binding_gaps(levels: ElectronLevels, level_of_theory: str) -> None:
    """Raise InputError if electron levels are requested and the labels are tight-binding gaps."""
    if levels not in ("none", HUECKEL) and (problem := tight_binding_gaps_problem(level_of_theory)):
        raise InputError(problem)


BLOCK: Final = Block(
    "levels",
    width=n_levels,
    name=lambda levels: f"{levels} gap, HOMO, LUMO",
    describe=electron_levels,
    is_slow=True,
    check=check_installed,
)
