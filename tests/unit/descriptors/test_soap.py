"""SOAP compressed over elements: against DScribe's full spectrum, and invariances of crystals."""

import dataclasses
from collections.abc import Callable

import ase.build
import numpy as np
import pytest
from ase import Atoms
from dscribe.descriptors import SOAP

from bandgap.descriptors import DescriptorConfig, featurize, n_features
from bandgap.descriptors.block_settings import Soap
from bandgap.descriptors.element_properties import TABLE_ELEMENTS
from bandgap.descriptors.mbtr import describe, obstacle
from bandgap.descriptors.soap import element_weights, soap, spectra
from tests.unit.descriptors.samples import WRITTEN_OTHERWISE, crystal, ethanol, record

SMALL = Soap(radial=3, angular=2, weights=("electronegativity", "row"))
N = SMALL.radial
L = SMALL.angular


def summed_spectra(atoms: Atoms, weights: dict[str, float]) -> np.ndarray:
    """Return the spectra (atom, component) of weighted densities from those of element pairs."""
    elements = sorted(set(atoms.symbols), key=TABLE_ELEMENTS.index)
    engine = SOAP(
        species=elements,
        r_cut=SMALL.cutoff_angstrom,
        n_max=N,
        l_max=L,
        sigma=SMALL.sigma_angstrom,
        periodic=bool(atoms.pbc.any()),
    )
    full = engine.create(atoms)
    total = np.zeros((len(atoms), N, N, L + 1))
    upper = [(n, m) for n in range(N) for m in range(n, N)]
    for k, a in enumerate(elements):
        for b in elements[k:]:
            of_pair = full[:, engine.get_location((a, b))]
            radial = upper if a == b else [(n, m) for n in range(N) for m in range(N)]
            for index, (n, m) in enumerate(radial):
                # Of every angular number, which is the outer loop.
                values = weights[a] * weights[b] * of_pair[:, index :: len(radial)]
                total[:, n, m] += values
                if n != m or a != b:
                    total[:, m, n] += values
    return np.stack([total[:, n, m, k] for k in range(L + 1) for n, m in upper], axis=1)


@pytest.mark.parametrize("make", [ethanol, crystal], ids=["molecule", "crystal"])
def test_spectra_are_those_of_all_pairs_of_elements_weighted_and_summed(
    make: Callable[[], Atoms],
) -> None:
    atoms = make()
    names = ("none", *SMALL.weights)
    expected = np.stack([summed_spectra(atoms, element_weights(name)) for name in names], axis=1)
    expected /= np.linalg.norm(expected[:, :1], axis=2, keepdims=True)
    np.testing.assert_allclose(spectra(atoms, SMALL), expected, rtol=1e-7, atol=1e-9)


def test_features_are_means_and_deviations_over_atoms() -> None:
    values = spectra(crystal(), SMALL).reshape(len(crystal()), -1)
    expected = np.concatenate([values.mean(axis=0), values.std(axis=0)]) * np.sqrt(
        N * (N + 1) / 2 * (L + 1)
    )
    np.testing.assert_allclose(soap(crystal(), SMALL), expected, atol=1e-12)


def test_weights_of_a_property_have_mean_one_over_the_elements() -> None:
    values = element_weights("electronegativity")
    assert np.mean(list(values.values())) == pytest.approx(1.0)
    assert values["F"] / values["Cs"] == pytest.approx(3.98 / 0.79)
    assert set(element_weights("none").values()) == {1.0} and tuple(values) == TABLE_ELEMENTS


def test_weights_distinguish_elements_which_the_plain_density_does_not() -> None:
    oxide, sulfide = (ase.build.bulk(name, "rocksalt", a=5.2) for name in ("CaO", "CaS"))
    plain = dataclasses.replace(SMALL, weights=())
    np.testing.assert_allclose(soap(oxide, plain), soap(sulfide, plain), atol=1e-12)
    assert np.abs(soap(oxide, SMALL) - soap(sulfide, SMALL)).max() > 0.05


@WRITTEN_OTHERWISE
@pytest.mark.parametrize(
    "make", [crystal, lambda: ase.build.bulk("NaCl", "rocksalt", a=5.64)], ids=["organic", "salt"]
)
def test_features_of_a_crystal_do_not_depend_on_how_it_is_written(
    make: Callable[[], Atoms], change: Callable[[Atoms], Atoms]
) -> None:
    atoms = make()
    config = DescriptorConfig(soap=SMALL)
    np.testing.assert_allclose(
        describe(change(atoms), config), describe(atoms, config), rtol=1e-7, atol=1e-6
    )


def test_descriptor_of_soap_has_one_length_for_any_elements() -> None:
    records = [record(ase.build.bulk(name, "rocksalt", a=5.2), name) for name in ("UN", "CsBr")]
    config = DescriptorConfig(soap=Soap())
    described = featurize([*records, record(ethanol()), record(Atoms("Xe"))], config)
    assert n_features(config) == described.features.shape[1] == 2 * 6 * 105
    assert np.isfinite(described.features).all()


def test_dense_cell_is_refused_before_dscribe_fills_the_memory() -> None:
    crowded = Atoms(
        "C" * 600, np.random.default_rng(0).random((600, 3)) * 5, cell=[5, 5, 5], pbc=True
    )
    assert "atoms within 6.85846" in str(obstacle(crowded, DescriptorConfig(soap=Soap())))
