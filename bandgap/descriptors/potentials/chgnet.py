"""CHGNet: a graph network trained on 1.6 million structures of the Materials Project, with the forces and moments.

Reference: B. Deng et al., CHGNet as a pretrained universal neural network potential for charge-informed atomistic
modelling, Nature Machine Intelligence 5, 1031 (2023). Its package, which the extra `chgnet` installs, brings the
weights of version 0.3.0 and loads them. It takes crystals alone, so that along an open axis, as around a molecule, a
box is drawn that is wider than the structure by more than the potential's reach: no atom sees an image, and the size of
the box does not matter.

What is pooled was chosen by the errors, in eV, of `gaussian_process` on 100 hybrid perovskites with HSE gaps (ten
splits) and on 200 crystals of the Materials Project with PBE gaps (five splits):

| pooled over the atoms                       | features | perovskites     | Materials Project |
|---------------------------------------------|----------|-----------------|-------------------|
| last layer: mean (the crystal's features)   | 64       | 0.267           |                   |
| layer before: mean                          | 64       | 0.256           |                   |
| layer before: mean, sd                      | 128      | 0.246 +- 0.009  | 1.043 +- 0.017    |
| layer before: mean, maximum                 | 128      | 0.214 +- 0.008  | 0.992 +- 0.011    |
| layer before: maximum, minimum              | 128      | 0.235 +- 0.007  | 0.941 +- 0.012    |
| **layer before: mean, maximum, minimum**    | 192      | 0.217 +- 0.007  | 0.931 +- 0.014    |
| layer before: mean, sd, maximum, minimum    | 256      | 0.214 +- 0.008  | 0.947 +- 0.015    |
| the same and the last layer's mean          | 320      | 0.214 +- 0.008  | 0.946 +- 0.016    |

The first two rows are of five splits. The gaps of the perovskites have a standard deviation of 0.37 eV, those of the
Materials Project one of 1.63 eV.

Together with other descriptors, and with a length of its own for each (`parts_gp`), the last layer gains: with
composition and neighbours beside it, `chgnet-two-layers` has 0.673 eV on 1,000 crystals of the Materials Project, the
layer before alone 0.688 (one split; 0.942 and 0.944 at n = 200, four splits); with square roots of MBTR and with SOAP
0.628 eV on 100 molecules with the gap of their organic crystal, the layer before alone 0.635 (five splits); on the
perovskites both have 0.203. Layers farther back say nothing more.
"""

import contextlib
import dataclasses
import io
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.parts import NoFeaturesError
from bandgap.descriptors.potentials.protocol import Potential
from bandgap.foundation.errors import ConfigError
from bandgap.structures.elements import ELEMENTS

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

WEIGHTS: Final = "0.3.0"
CUTOFF_ANGSTROM: Final = 6.0
WIDTH: Final = 64  # features of an atom in a layer
MAX_PAIRS: Final = 200_000  # of neighbours, about 2,000 atoms: about 1 GB of memory
UNTRAINED: Final = ("Po", "At", "Rn", "Fr", "Ra")  # of no structure of its training


def pooled(atoms: "Atoms") -> Floats:
    """Return the pooled features of a structure; raises NoFeaturesError where the potential cannot take it."""
    return _pooled(atom_features(atoms))


def pooled_of_two_layers(atoms: "Atoms") -> Floats:
    """Return the pooled features of the last two layers, the one before first; raises NoFeaturesError as `pooled`."""
    return np.concatenate([_pooled(features) for features in layers(atoms)])


def atom_features(atoms: "Atoms") -> Floats:
    """Return the features (atom, 64) of the layer before the last one, of which the magnetic moments are made.

    Raises NoFeaturesError where the structure has too many pairs of neighbours or an atom without any.
    """
    return layers(atoms)[0]


def layers(atoms: "Atoms") -> tuple[Floats, Floats]:
    """Return the features (atom, 64) of the layer before the last one, and of the last one, from which energies come.

    Raises NoFeaturesError where the structure has too many pairs of neighbours or an atom without any.
    """
    import torch

    model, last = _model(), []
    boxed = _boxed(atoms)
    _refuse_crowded(boxed)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of pymatgen, on elements without an electronegativity
        structure = _structure(boxed)
        _refuse_isolated(structure)
        hook = model.readout_norm.register_forward_hook(
            lambda module, given, made: last.append(made)
        )
        try:
            before = model([model.graph_converter(structure)], task="e", return_atom_feas=True)[
                "atom_fea"
            ][0]
        finally:
            hook.remove()
    return np.asarray(before.numpy(), dtype=np.float64), np.asarray(
        last[0].numpy(), dtype=np.float64
    )


def _pooled(features: Floats) -> Floats:
    return np.concatenate([features.mean(0), features.max(0), features.min(0)])


def check_installed() -> None:
    """Raise ConfigError with what to do where CHGNet is not installed."""
    _package()


@lru_cache(maxsize=1)
def _model() -> Any:
    """Return the network with its weights, for predictions on the CPU."""
    with contextlib.redirect_stdout(io.StringIO()):  # it prints how many parameters it has
        return _package().load(model_name=WEIGHTS, use_device="cpu", verbose=False).eval()


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # invalid escape sequences of bibtexparser, which pymatgen loads
            from chgnet.model.model import CHGNet
    except ImportError:
        raise ConfigError(
            "Features of CHGNet need the package chgnet, which is not installed. Install it by "
            "`pip install -c constraints.txt '.[chgnet]'` in the folder of bandgap's README, or take another "
            "descriptor."
        ) from None
    return CHGNet


def _boxed(atoms: "Atoms") -> "Atoms":
    """Return the structure periodic along all axes, with more than the reach between images along the open ones."""
    if atoms.pbc.all():
        return atoms
    boxed: Atoms = atoms.copy()  # type: ignore[no-untyped-call]
    boxed.cell[~atoms.pbc] = 0.0
    axes = (
        boxed.cell.complete().array
    )  # of length 1 and at right angles to the others, along the open axes
    along = axes[~atoms.pbc] @ atoms.positions.T
    lengths = np.ptp(along, axis=1) + CUTOFF_ANGSTROM + 1.0
    axes[~atoms.pbc] *= lengths[:, None]
    boxed.cell[:] = axes
    boxed.pbc = True
    return boxed


def _structure(boxed: "Atoms") -> Any:
    from pymatgen.core import Lattice, Structure

    return Structure(
        Lattice(boxed.cell.array), boxed.numbers, boxed.positions, coords_are_cartesian=True
    )


def _pairs(boxed: "Atoms") -> float:
    """Return about how many pairs of atoms are within the cutoff, both directions, by the density of the cell."""
    n, volume = len(boxed), abs(float(np.linalg.det(boxed.cell.array)))
    return n * n / volume * 4.0 / 3.0 * np.pi * CUTOFF_ANGSTROM**3


def _refuse_crowded(boxed: "Atoms") -> None:
    pairs = _pairs(boxed)
    if pairs > MAX_PAIRS:
        raise NoFeaturesError(
            f"has {len(boxed):,} atoms with about {round(pairs, -3):,.0f} pairs within {CUTOFF_ANGSTROM:g} angstroms, "
            f"too many for CHGNet; accepted: {MAX_PAIRS:,}, about 2,000 atoms. Check the cell, or use the "
            "primitive one."
        )


def _refuse_isolated(structure: Any) -> None:
    centres = structure.get_neighbor_list(
        r=CUTOFF_ANGSTROM, sites=structure.sites, numerical_tol=1e-8
    )[0]
    lone = len(structure) - len(set(centres.tolist()))
    if lone:
        atoms = "an atom" if lone == 1 else f"{lone:,} atoms"
        raise NoFeaturesError(
            f"has {atoms} without a neighbour within {CUTOFF_ANGSTROM:g} angstroms, which CHGNet cannot describe."
        )


POTENTIAL: Final = Potential(
    name="chgnet",
    title=f"CHGNet {WEIGHTS}",
    licence="modified BSD, (c) 2023 The Regents of the University of California",
    reference="Deng et al., Nature Machine Intelligence 5, 1031 (2023)",
    elements=tuple(symbol for symbol in ELEMENTS[:94] if symbol not in UNTRAINED),
    n_features=3 * WIDTH,
    reach_angstrom=CUTOFF_ANGSTROM,
    describe=pooled,
    check=check_installed,
    package="chgnet",
)
TWO_LAYERS: Final = dataclasses.replace(
    POTENTIAL,
    name="chgnet-two-layers",
    title=f"CHGNet {WEIGHTS}, two layers",
    n_features=6 * WIDTH,
    describe=pooled_of_two_layers,
)
