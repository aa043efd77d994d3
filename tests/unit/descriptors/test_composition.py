"""Statistics of element properties are those of matminer and depend on the composition only."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.formula import Formula

from bandgap.descriptors import DescriptorConfig, featurize, n_features
from bandgap.descriptors.composition import STATISTICS, composition, property_statistics
from bandgap.descriptors.element_properties import (
    PROPERTIES,
    TABLE_ELEMENTS,
    element_properties,
    scaled_properties,
)
from bandgap.descriptors.presets import K1
from bandgap.structures.elements import ELEMENTS
from tests.unit.descriptors.samples import crystal, record

ALL = "sum over the 22 properties"
# matminer 0.10.1, ElementProperty.from_preset("magpie"), in the order of STATISTICS.
MATMINER = {
    "CH6NPbI3": {
        "electronegativity": (2.425, 0.240833333, 2.2, 3.04, 0.84, 2.2),
        "melting point (K)": (477.605833, 578.066389, 14.01, 3823, 3808.99, 14.01),
        "volume per atom (A^3)": (18.1044792, 14.1228472, 5.64, 43.015, 37.375, 6.615),
        "unfilled states": (1.66666667, 1, 1, 4, 3, 1),
        ALL: (935.2366, 812.708516, 200.85794, 4724.108, 4523.25006, 355.68594),
    },
    "CaTiO3": {
        "electronegativity": (2.572, 1.0416, 1, 3.44, 2.44, 3.44),
        "melting point (K)": (644.08, 707.136, 54.8, 1941, 1886.2, 54.8),
        "volume per atom (A^3)": (16.355, 8.7, 9.105, 37.77, 28.665, 9.105),
        "unfilled states": (2.8, 2.08, 0, 8, 8, 2),
        ALL: (992.195645, 926.864695, 181.9044, 2592.07702, 2410.17262, 290.3444),
    },
    "YbPu2Kr": {
        "electronegativity": (1.705, 0.6475, 1.26, 3, 1.74, 1.28),
        "melting point (K)": (758.4475, 321.32875, 115.79, 1092, 976.21, 913),
        "volume per atom (A^3)": (26.585, 8.505, 18.08, 36.06, 17.98, 18.08),
        "unfilled states": (4, 4, 0, 8, 8, 8),
        ALL: (1428.49325, 601.252877, 422.928, 2080.913, 1657.985, 1534.678),
    },
    "Fe2O3": {
        "electronegativity": (2.796, 0.7728, 1.83, 3.44, 1.61, 3.44),
        "melting point (K)": (757.28, 842.976, 54.8, 1811, 1756.2, 54.8),
        "volume per atom (A^3)": (9.755, 0.78, 9.105, 10.73, 1.625, 9.105),
        "unfilled states": (2.8, 0.96, 2, 4, 2, 2),
        ALL: (1118.01291, 1038.90781, 242.7344, 2407.12566, 2164.39126, 290.3444),
    },
}


@pytest.mark.parametrize("formula", MATMINER)
def test_statistics_of_a_compound_are_those_of_matminer(formula: str) -> None:
    numbers = Atoms(str(Formula(formula))).numbers
    statistics = property_statistics(numbers, element_properties())
    assert statistics.shape == (len(STATISTICS), len(PROPERTIES)) == (6, 22)
    for name, expected in MATMINER[formula].items():
        column = statistics.sum(axis=1) if name == ALL else statistics[:, PROPERTIES.index(name)]
        np.testing.assert_allclose(column, expected, rtol=1e-8, err_msg=name)


def test_properties_are_finite_from_hydrogen_to_curium() -> None:
    assert ELEMENTS[:96] == TABLE_ELEMENTS and TABLE_ELEMENTS[-1] == "Cm"
    table = element_properties()
    assert table.shape == (96, 22) and np.isfinite(table).all()
    electronegativity = dict(
        zip(TABLE_ELEMENTS, table[:, PROPERTIES.index("electronegativity")], strict=True)
    )
    assert max(electronegativity, key=lambda symbol: electronegativity[symbol]) == "F"
    measured = [
        value
        for symbol, value in electronegativity.items()
        if symbol not in ("He", "Ne", "Ar", "Rn")
    ]
    assert electronegativity["Ne"] == pytest.approx(np.mean(measured))


def test_features_are_the_statistics_of_scaled_properties() -> None:
    scaled = scaled_properties()
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-12)
    atoms = bulk("NaCl", "rocksalt", a=5.64)
    table = element_properties()
    raw = property_statistics(atoms.numbers, table)
    # Subtracting the mean changes neither the mean absolute deviation nor the range.
    is_shifted = np.array([1, 0, 1, 1, 0, 1])[:, None]
    expected = (raw - is_shifted * table.mean(axis=0)) / table.std(axis=0)
    np.testing.assert_allclose(composition(atoms), expected.ravel(), atol=1e-12)


def test_features_depend_on_the_fractions_of_elements_only() -> None:
    atoms = crystal()
    expected = composition(atoms)
    shuffled = atoms[np.random.default_rng(0).permutation(len(atoms))]
    for other in (atoms.repeat((2, 1, 3)), shuffled, Atoms(numbers=atoms.numbers)):
        np.testing.assert_allclose(composition(other), expected, atol=1e-12)
    assert not np.allclose(composition(molecule("H2O")), expected)


def test_descriptor_of_composition_accepts_every_element_of_the_table() -> None:
    config = DescriptorConfig(composition=True)
    assert config.elements == TABLE_ELEMENTS and config.species == ()
    assert n_features(config) == 132
    described = featurize(
        [record(Atoms("UPbXe", [[0, 0, 0], [3, 0, 0], [0, 3, 0]])), record(Atoms("Lr"))], config
    )
    assert np.isfinite(described.features[0]).all()
    problem = described.problems[1]
    assert problem is not None and problem.text.startswith(
        "contains Lr, which the descriptor was not set up for"
    )


def test_descriptor_with_terms_accepts_the_elements_that_both_accept() -> None:
    config = DescriptorConfig(("H", "Cm", "Bk"), k1=K1, composition=True)
    assert config.elements == ("H", "Cm")
