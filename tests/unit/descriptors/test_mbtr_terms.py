"""Terms by DScribe's compiled loops are bitwise equal to those of its public classes."""

import dataclasses
from unittest import mock

import ase.build
import numpy as np
import pytest
from ase import Atoms
from dscribe.core import System
from dscribe.descriptors import MBTR

from bandgap.descriptors import DescriptorConfig, Term
from bandgap.descriptors.mbtr_terms import term_of
from tests.unit.descriptors.samples import K1, K3, K3_ANGLE, SPECIES, crystal, ethanol

K2 = Term(
    "inverse_distance",
    0.25,
    1.1,
    n=36,
    sigma=0.015,
    weighting="exp",
    cutoff_angstrom=3.5,
    threshold=1e-3,
)
SQUARE = dataclasses.replace(K2, weighting="inverse_square", threshold=None, cutoff_angstrom=5.0)
BY_DISTANCE = dataclasses.replace(K2, function="distance", minimum=0.5, maximum=6.0, sigma=0.1)
SLAB = Atoms(
    "CHOH",
    [(0, 0, 0), (0.9, 0.5, 0.3), (2.0, 1.0, 1.1), (3.1, 2.9, 0.2)],
    cell=(4, 4, 9),
    pbc=(1, 1, 0),
)
MANY = ase.build.molecule("C60")  # type: ignore[no-untyped-call]


def by_class(atoms: Atoms, term: Term) -> np.ndarray:
    """Return a term by DScribe's class, called as in its documentation."""
    weighting = {
        "function": term.weighting,
        "r_cut": term.cutoff_angstrom,
        "threshold": term.threshold,
    }
    mbtr = MBTR(
        species=list(SPECIES),
        geometry={"function": term.function},
        grid={"min": term.minimum, "max": term.maximum, "n": term.n, "sigma": term.sigma},
        weighting=None
        if term.weighting == "none"
        else {k: v for k, v in weighting.items() if v is not None},
        normalize_gaussians=False,
        periodic=bool(atoms.pbc.any()),
    )
    # DScribe 2.1.2 copies a structure by the order of arguments before ASE 3.27.
    with mock.patch.object(System, "from_atoms", copy_of):
        return np.asarray(mbtr.create(atoms))


def copy_of(atoms: Atoms) -> System:
    return System(numbers=atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=atoms.pbc)


COSINE = dataclasses.replace(K3, cutoff_angstrom=3.5)
ORDERS = {K1: 1, K2: 2, SQUARE: 2, BY_DISTANCE: 2, COSINE: 3, K3_ANGLE: 3}


@pytest.mark.parametrize(
    "term", ORDERS, ids=["k1", "k2", "inverse square", "distance", "cosine", "smooth cutoff"]
)
@pytest.mark.parametrize(
    "atoms",
    [
        pytest.param(ethanol(), id="molecule"),
        pytest.param(MANY, id="larger than a leaf of the tree"),
        pytest.param(Atoms("H"), id="lone atom"),
        pytest.param(crystal(), id="crystal"),
        pytest.param(SLAB, id="slab"),
    ],
)
def test_term_is_bitwise_equal_to_that_of_the_class(atoms, term):
    config = DescriptorConfig(SPECIES, **{f"k{ORDERS[term]}": term})
    values = term_of(atoms, config, order=ORDERS[term], term=term)
    expected = by_class(atoms, term)
    np.testing.assert_array_equal(values, expected)
    assert len(atoms) == 1 or expected.max() > 0.01
