"""CHGNet: a graph network trained on energies, forces and moments of the Materials Project.

Its package contains the weights of version 0.3.0. It is a dependency where it has wheels, and the
extra `chgnet` elsewhere. CHGNet accepts crystals only. A structure with open axes, such as a
molecule, is put into a box that is wider than the structure by more than the cutoff. No atom is
then a neighbour of an image, and the size of the box does not matter. What is pooled over the atoms
was chosen by errors of test structures; the table is in docs/explanation/descriptors.md.

Reference: B. Deng et al., CHGNet as a pretrained universal neural network potential for
charge-informed atomistic modelling, Nature Machine Intelligence 5, 1031 (2023).
"""

import contextlib
import dataclasses
import io
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import NoFeaturesError
from bandgap.descriptors.potentials.chgnet_graphs import (
    CUTOFF_ANGSTROM,
    Edges,
    edges_of,
    graph_of,
)
from bandgap.descriptors.potentials.protocol import (
    TRAINED_ELEMENTS,
    Potential,
    pooled_over_atoms,
)
from bandgap.foundation.extras import package

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

WEIGHTS: Final = "0.3.0"
# Features of an atom in a layer.
WIDTH: Final = 64
# Pairs of neighbours, of about 2,000 atoms; they take about 1 GB of memory.
MAX_PAIRS: Final = 200_000


def pooled(atoms: "Atoms") -> Floats:
    """Return the pooled features (192,) of the layer before the last one; raises as `layers`."""
    return pooled_over_atoms(atom_features(atoms))


def pooled_of_two_layers(atoms: "Atoms") -> Floats:
    """Return the pooled features (384,) of the last two layers, the earlier one first."""
    return np.concatenate([pooled_over_atoms(features) for features in layers(atoms)])


def atom_features(atoms: "Atoms") -> Floats:
    """Return the features (atom, 64) of the layer before the last one; raises as `layers`."""
    return layers(atoms)[0]


def layers(atoms: "Atoms") -> tuple[Floats, Floats]:
    """Return the features (atom, 64) of the last two layers, the earlier one first.

    CHGNet computes magnetic moments from the earlier one, and energies from the last one. Raises
    NoFeaturesError if the structure has too many pairs of neighbours or an atom without neighbours.
    """
    import torch

    model = _model()
    boxed = _boxed(atoms)
    _refuse_crowded(boxed)
    outputs: list[Any] = []
    with warnings.catch_warnings(), torch.no_grad():
        # pymatgen warns of elements without an electronegativity.
        warnings.simplefilter("ignore")
        structure = _structure(boxed)
        edges = edges_of(structure)
        _refuse_isolated(len(boxed), edges)
        hook = model.readout_norm.register_forward_hook(
            lambda module, inputs, output: outputs.append(output)
        )
        try:
            graph = graph_of(structure, edges)
            result = model([graph], task="e", return_atom_feas=True)
        finally:
            hook.remove()
    before_last = np.asarray(result["atom_fea"][0].numpy(), dtype=np.float64)
    last = np.asarray(outputs[0].numpy(), dtype=np.float64)
    return before_last, last


def check_installed() -> None:
    """Raise ConfigError with what to install if CHGNet is missing."""
    _package()


@lru_cache(maxsize=1)
def _model() -> Any:
    """Return the network with its weights, on the CPU."""
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its number of parameters
        model = _package().load(model_name=WEIGHTS, use_device="cpu", verbose=False).eval()
    model.angle_layers[-1] = None  # No later layer reads its angles.
    return model


def _package() -> Any:
    with warnings.catch_warnings():
        # Of invalid escape sequences in bibtexparser, which pymatgen imports.
        warnings.simplefilter("ignore")
        return package(
            "chgnet.model.model", extra="chgnet", user="CHGNet", end=", or take another descriptor"
        ).CHGNet


def _boxed(atoms: "Atoms") -> "Atoms":
    """Return the structure in a box that is periodic along all axes.

    Along open axes, images are farther apart than the cutoff.
    """
    if atoms.pbc.all():
        return atoms
    boxed: Atoms = atoms.copy()  # type: ignore[no-untyped-call]
    boxed.cell[~atoms.pbc] = 0.0
    # Along the open axes, of length 1 and perpendicular to the others.
    axes = boxed.cell.complete().array
    coordinates = axes[~atoms.pbc] @ atoms.positions.T
    lengths = np.ptp(coordinates, axis=1) + CUTOFF_ANGSTROM + 1.0
    axes[~atoms.pbc] *= lengths[:, None]
    boxed.cell[:] = axes
    boxed.pbc = True
    return boxed


def _structure(boxed: "Atoms") -> Any:
    from pymatgen.core.lattice import Lattice
    from pymatgen.core.structure import Structure

    return Structure(
        Lattice(boxed.cell.array), boxed.numbers, boxed.positions, coords_are_cartesian=True
    )


def _n_pairs(boxed: "Atoms") -> float:
    """Return the approximate number of pairs within the cutoff, from the density of the cell."""
    n = len(boxed)
    volume = abs(float(np.linalg.det(boxed.cell.array)))
    return n * n / volume * 4.0 / 3.0 * np.pi * CUTOFF_ANGSTROM**3


def _refuse_crowded(boxed: "Atoms") -> None:
    n_pairs = _n_pairs(boxed)
    if n_pairs > MAX_PAIRS:
        raise NoFeaturesError(
            f"has {len(boxed):,} atoms with about {round(n_pairs, -3):,.0f} pairs within "
            f"{CUTOFF_ANGSTROM:g} angstroms, too many for CHGNet; accepted: {MAX_PAIRS:,}, "
            "about 2,000 atoms. Check the cell, or use the primitive one."
        )


def _refuse_isolated(n: int, edges: Edges) -> None:
    n_isolated = n - len(np.unique(edges[0]))
    if n_isolated:
        atoms = "an atom" if n_isolated == 1 else f"{n_isolated:,} atoms"
        raise NoFeaturesError(
            f"has {atoms} without a neighbour within {CUTOFF_ANGSTROM:g} angstroms, "
            "which CHGNet cannot describe."
        )


POTENTIAL: Final = Potential(
    name="chgnet",
    title=f"CHGNet {WEIGHTS}",
    licence="modified BSD, (c) 2023 The Regents of the University of California",
    reference="Deng et al., Nature Machine Intelligence 5, 1031 (2023)",
    elements=TRAINED_ELEMENTS,
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
