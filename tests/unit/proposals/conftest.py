"""Molecules for tests of proposals."""

import pytest

from bandgap.proposals.molecules import MoleculeGraph

# Aromatic rings, fused rings, charges, sulfur of valence 2, 4 and 6, triple bonds, halogens.
SMILES = (
    "c1ccccc1",
    "c1ccc2ccccc2c1",
    "Cc1cc[nH]c1",
    "c1ccsc1C#N",
    "CS(=O)(=O)c1ccccc1",
    "CS(C)=O",
    "O=[N+]([O-])c1ccc(F)cc1",
    "CC(=O)Nc1ccc(O)cc1",
    "C1CC2CCC1C2",
    "Clc1ccncc1Br",
    "CC",
    "O=C1C=CC(=O)C=C1",
)


@pytest.fixture
def molecules() -> list[MoleculeGraph]:
    """The graphs of `SMILES`."""
    from bandgap.proposals.chemistry import graph_of_smiles

    return [graph_of_smiles(smiles) for smiles in SMILES]
