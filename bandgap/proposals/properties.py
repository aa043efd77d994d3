"""Distributions of simple properties of molecules, and how far those of two sets are apart."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from bandgap.descriptors.rdkit_package import rdkit_module

Floats = NDArray[np.float64]

# Functions of RDKit by the name of the property.
PROPERTIES: Final[Mapping[str, str]] = {
    "molar mass": "MolWt",
    "rings": "RingCount",
    "logP": "MolLogP",
    "polar surface": "TPSA",
}


def property_values(smiles: Sequence[str]) -> dict[str, Floats]:
    """Return the values (n,) of every property of molecules that RDKit can read, by name."""
    chem = rdkit_module()
    descriptors = rdkit_module("Chem.Descriptors")
    molecules = [chem.MolFromSmiles(text) for text in smiles]
    return {
        name: np.array([getattr(descriptors, function)(m) for m in molecules], dtype=np.float64)
        for name, function in PROPERTIES.items()
    }


def property_distances(first: Sequence[str], second: Sequence[str]) -> dict[str, float]:
    """Return the Kolmogorov-Smirnov distance of each property between two sets of molecules.

    Read it next to the distance of two halves of the training set, which is not zero either.
    """
    values = property_values(first)
    other_values = property_values(second)
    return {
        name: float(ks_2samp(values[name], other_values[name]).statistic) for name in PROPERTIES
    }
