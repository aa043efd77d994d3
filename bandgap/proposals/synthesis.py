"""Hints on the synthesis of molecules: an accessibility score and structural alerts, by RDKit.

They describe what molecules have in common with those that were made before. No value says that a
molecule can be made, or that it is stable.

References: P. Ertl and A. Schuffenhauer, J. Cheminform. 1, 8 (2009); R. Brenk et al., ChemMedChem
3, 435 (2008).
"""

import functools
import importlib
import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.rdkit_package import rdkit_module

Floats = NDArray[np.float64]

_SCORER: Final = "rdkit.Contrib.SA_Score.sascorer"


def accessibility_scores(smiles: Sequence[str]) -> Floats:
    """Return the synthetic accessibility of molecules, (n,), from 1 (easy) to 10 (difficult).

    NaN where RDKit was installed without its scorer, as some distributions are.
    """
    chem = rdkit_module()
    try:
        scorer = importlib.import_module(_SCORER)
    except ImportError:
        return np.full(len(smiles), np.nan)
    with warnings.catch_warnings():
        # The scorer does not close the file of its fragments.
        warnings.simplefilter("ignore", ResourceWarning)
        scores = [scorer.calculateScore(chem.MolFromSmiles(text)) for text in smiles]
    return np.array(scores, dtype=np.float64)


def structural_alerts(smiles: Sequence[str]) -> list[str]:
    """Return the names of the alerting groups of each molecule, separated by "; "."""
    chem = rdkit_module()
    return [
        "; ".join(sorted({entry.GetDescription() for entry in _alerts().GetMatches(molecule)}))
        for molecule in (chem.MolFromSmiles(text) for text in smiles)
    ]


@functools.cache
def _alerts() -> Any:
    catalogs = rdkit_module("Chem.FilterCatalog")
    settings = catalogs.FilterCatalogParams()
    settings.AddCatalog(catalogs.FilterCatalogParams.FilterCatalogs.BRENK)
    return catalogs.FilterCatalog(settings)
