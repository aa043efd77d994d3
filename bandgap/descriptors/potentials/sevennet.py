"""SevenNet-MF-0: an equivariant graph network trained on energies, forces and stresses.

Its package, which the extra `sevennet` installs, contains the weights. They were trained on PBE
and r2SCAN calculations of the Materials Project together; the network is evaluated as for PBE.
Pooled over the atoms are the features after the last interaction, from which SevenNet computes
energies. A structure with open axes needs no box, as they are not periodic in SevenNet either.

References: Y. Park et al., Scalable parallel algorithm for graph neural network interatomic
potentials in molecular dynamics simulations, J. Chem. Theory Comput. 20, 4857 (2024); J. Kim et
al., Data-efficient multifidelity training for high-fidelity machine learning interatomic
potentials, J. Am. Chem. Soc. 147, 1042 (2025).
"""

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import NoFeaturesError
from bandgap.descriptors.potentials.protocol import (
    TRAINED_ELEMENTS,
    Potential,
    pooled_over_atoms,
)
from bandgap.foundation.extras import package

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

CUTOFF_ANGSTROM: Final = 5.0
# Features of an atom after the last interaction.
WIDTH: Final = 128
# Pairs of neighbours, both directions counted, of about 3,000 atoms.
MAX_PAIRS: Final = 200_000
# The modules after the features of the atoms: energies and forces.
_FIRST_OF_READOUT: Final = "reduce_input_to_hidden"
_FIDELITY: Final = "PBE"


def pooled(atoms: "Atoms") -> Floats:
    """Return the pooled features (384,) of the atoms; raises as `atom_features`."""
    return pooled_over_atoms(atom_features(atoms))


def atom_features(atoms: "Atoms") -> Floats:
    """Return the features (atom, 128) after the last interaction.

    Raises NoFeaturesError if the structure has too many pairs of neighbours or none.
    """
    import sevenn._keys as keys
    import torch
    from sevenn.atom_graph_data import AtomGraphData
    from sevenn.train.dataload import unlabeled_atoms_to_graph

    model = _model()
    graph = unlabeled_atoms_to_graph(atoms, CUTOFF_ANGSTROM)
    n_pairs = graph[keys.EDGE_IDX].shape[1]
    if not 0 < n_pairs <= MAX_PAIRS:
        raise NoFeaturesError(
            f"has {n_pairs:,} pairs of atoms within {CUTOFF_ANGSTROM:g} angstroms, which SevenNet "
            f"cannot describe; accepted: 1 to {MAX_PAIRS:,}. Check the cell, or use the primitive "
            "one."
        )
    data: Any = AtomGraphData.from_numpy_dict(graph)
    data[keys.DATA_MODALITY] = _FIDELITY
    with torch.no_grad():
        data = model._preprocess(data)
        for name, module in model._modules.items():
            if name == _FIRST_OF_READOUT:
                break
            data = module(data)
    return np.asarray(data[keys.NODE_FEATURE].numpy(), dtype=np.float64)


def check_installed() -> None:
    """Raise ConfigError with what to install if SevenNet is missing."""
    _package()


@lru_cache(maxsize=1)
def _model() -> Any:
    """Return the network with its weights, on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings of its training that are not used
        from sevenn._const import SEVENNET_MF_0

        model = _package()(SEVENNET_MF_0).build_model()
    model.set_is_batch_data(False)
    return model.eval()


def _package() -> Any:
    """Return the class of SevenNet that reads its weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that SevenNet imports
        return package(
            "sevenn.checkpoint",
            extra="sevennet",
            user="SevenNet",
            end=", or take another descriptor",
        ).SevenNetCheckpoint


POTENTIAL: Final = Potential(
    name="sevennet-mf-0",
    title="SevenNet-MF-0",
    licence="MIT, (c) 2024 Yutack Park",
    reference="Kim et al., J. Am. Chem. Soc. 147, 1042 (2025)",
    elements=TRAINED_ELEMENTS,
    n_features=3 * WIDTH,
    reach_angstrom=CUTOFF_ANGSTROM,
    describe=pooled,
    check=check_installed,
    package="sevenn",
)
