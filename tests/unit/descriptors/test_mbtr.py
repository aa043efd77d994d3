"""The vector of one structure: against the formula, against stored values, and invariances."""

import dataclasses
import math

import ase.build
import numpy as np
import pytest
from ase import Atoms
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from scipy.special import erf

from bandgap.descriptors import (
    DescriptorConfig,
    Term,
    config_for,
    feature_blocks,
    n_features,
)
from bandgap.descriptors.mbtr import describe, obstacle
from bandgap.structures.zwitterions import neutral_form
from tests.unit.descriptors.samples import CONFIGS, K1, SPECIES, crystal, ethanol
from tests.unit.structures.test_zwitterions import ammonium, formate, side_by_side

Floats = NDArray[np.float64]
# What is below 1e-8 is set to zero; moving a structure changes the numbers by about 1e-13.
ROUNDING = 2e-8
DEFAULT = CONFIGS["k1 k2 per heavy atom"]


def assert_same(actual: Floats, expected: Floats) -> None:
    """Fail where two vectors differ by more than rounding."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ROUNDING)


def bump(term: Term, center: float) -> Floats:
    """Return the mean of exp(-(x - center)^2 / 2 sigma^2) over every interval of the grid."""
    grid, step = np.linspace(term.minimum, term.maximum, term.n, retstep=True)
    edges = np.append(grid - step / 2, grid[-1] + step / 2)
    return np.asarray(
        np.diff(erf((edges - center) / term.sigma / math.sqrt(2)))
        * term.sigma
        * math.sqrt(math.pi / 2)
        / step
    )


def by_formula(atoms: Atoms, config: DescriptorConfig) -> Floats:
    """Return k1 and k2 with exponential weighting, per heavy atom, by loops over all images."""
    vector = np.zeros(n_features(config))
    slices = dict(feature_blocks(config))
    assert config.k2.threshold is not None and config.k2.cutoff_angstrom is not None
    decay = -math.log(config.k2.threshold) / config.k2.cutoff_angstrom
    images = (
        np.array(np.meshgrid(*[range(-3, 4)] * 3)).reshape(3, -1).T
        if atoms.pbc.any()
        else np.zeros((1, 3))
    )
    for i, first in enumerate(atoms):
        vector[slices[first.symbol]] += bump(config.k1, first.number)
        for j, second in enumerate(atoms):
            pair = [s for s in config.species if s in (first.symbol, second.symbol)]
            for shift in images @ atoms.cell.array:
                distance = float(np.linalg.norm(second.position + shift - first.position))
                if (i != j or shift.any()) and distance < config.k2.cutoff_angstrom:
                    # Every pair is added from both of its ends.
                    half = 0.5 * math.exp(-decay * distance)
                    block = slices[f"{pair[0]}-{pair[-1]}"]
                    vector[block] += half * bump(config.k2, 1 / distance)
    return vector / np.sum(atoms.numbers > 1)


def test_describe_structure_agrees_with_the_formula(atoms: Atoms) -> None:
    assert_same(describe(atoms, DEFAULT), by_formula(atoms, DEFAULT))


def test_describe_water_gives_the_stored_values() -> None:
    water = Atoms("OHH", [(0.0, 0.0, 0.1173), (0.0, 0.7572, -0.4692), (0.0, -0.7572, -0.4692)])
    config = config_for(species=["H", "O"])
    blocks = {name: describe(water, config)[block] for name, block in feature_blocks(config)}
    stored = {
        "H": {0: 1.884238, 1: 1.631636, 2: 0.707584, 3: 0.153289, 4: 0.016523},
        "O": {
            0: 0.147572,
            1: 0.524882,
            2: 0.933683,
            3: 0.832127,
            4: 0.371428,
            5: 0.082832,
            6: 0.009193,
        },
        "H-H": {16: 0.019399, 17: 0.044833, 18: 0.012416},
        "H-O": {31: 0.012187, 32: 0.162847, 33: 0.247172, 34: 0.044521},
        "O-O": {},
    }
    for name, values in stored.items():
        large = {i: value for i, value in enumerate(blocks[name]) if value > 1e-3}
        assert large == pytest.approx(values, abs=1e-6)


def test_describe_rotated_structure_is_the_same(atoms: Atoms, config: DescriptorConfig) -> None:
    turned = atoms.copy()
    turned.rotate(37.0, (0.3, -1.0, 0.6), rotate_cell=True)
    assert_same(describe(turned, config), describe(atoms, config))


def test_describe_reordered_atoms_is_the_same(atoms: Atoms, config: DescriptorConfig) -> None:
    order = np.random.default_rng(0).permutation(len(atoms))
    assert_same(describe(atoms[order], config), describe(atoms, config))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_describe_crystal_moved_in_any_way_is_the_same(seed: int) -> None:
    generator = np.random.default_rng(seed)
    atoms = crystal()
    turn = Rotation.random(None, generator).as_matrix()
    moved = Atoms(
        atoms.numbers,
        (atoms.positions + generator.uniform(-20, 20, 3)) @ turn.T,
        cell=atoms.cell.array @ turn.T,
        pbc=True,
    )
    moved = moved[generator.permutation(len(atoms))]
    assert_same(describe(moved, DEFAULT), describe(atoms, DEFAULT))


@pytest.mark.parametrize("change", ["wrapped", "scattered over cells", "other lattice vectors"])
def test_describe_crystal_written_otherwise_is_the_same(
    change: str, config: DescriptorConfig
) -> None:
    other = crystal()
    if change == "wrapped":
        other.wrap()
    elif change == "scattered over cells":
        other.positions += (
            np.random.default_rng(0).integers(-2, 3, (len(other), 3)) @ other.cell.array
        )
    else:
        other.set_cell(np.array([[1, 0, 0], [1, 1, 0], [0, -1, 1]]) @ other.cell.array)
    assert_same(describe(other, config), describe(crystal(), config))


@pytest.mark.parametrize("repeat", [(2, 1, 1), (1, 2, 3)], ids=str)
def test_describe_supercell_is_the_same_unless_unscaled(
    repeat: tuple[int, int, int], config: DescriptorConfig
) -> None:
    n_cells = math.prod(repeat) if config.normalisation == "none" else 1
    supercell = describe(crystal().repeat(repeat), config)
    assert_same(supercell, n_cells * describe(crystal(), config))


@pytest.mark.parametrize("normalisation", ["per_heavy_atom", "per_atom", "l2_per_term", "none"])
def test_describe_lone_atom_has_no_pairs_and_no_nan(normalisation: str) -> None:
    config = dataclasses.replace(DEFAULT, normalisation=normalisation)  # type: ignore[arg-type]
    vector = describe(Atoms("C"), config)
    n_k1 = len(SPECIES) * K1.n
    assert vector[:n_k1].max() > 0
    assert not vector[n_k1:].any()


def test_describe_hydrogen_alone_is_divided_by_all_atoms() -> None:
    per_atom = dataclasses.replace(DEFAULT, normalisation="per_atom")
    assert_same(
        describe(ase.build.molecule("H2"), DEFAULT), describe(ase.build.molecule("H2"), per_atom)
    )


def test_describe_molecule_in_a_box_without_periodicity_ignores_the_box() -> None:
    boxed = ethanol()
    boxed.set_cell([6.0, 6.0, 6.0])
    assert_same(describe(boxed, DEFAULT), describe(ethanol(), DEFAULT))


def test_describe_crystal_of_far_molecules_is_the_molecule() -> None:
    sparse = ethanol()
    sparse.set_cell([30.0, 30.0, 30.0])
    sparse.pbc = True
    assert_same(describe(sparse, DEFAULT), describe(ethanol(), DEFAULT))


@pytest.mark.parametrize(
    "third_vector", [(0.0, 0.0, 0.0), (0.0, 0.0, 12.0)], ids=["no third vector", "vacuum"]
)
def test_describe_slab_repeats_along_its_periodic_axes_only(
    third_vector: tuple[float, float, float],
) -> None:
    slab = ethanol()
    slab.set_cell([[5.5, 0.0, 0.0], [0.5, 5.0, 0.0], third_vector])
    slab.pbc = (True, True, False)
    stacked = slab.copy()
    stacked.set_cell([[5.5, 0.0, 0.0], [0.5, 5.0, 0.0], [0.0, 0.0, 40.0]])
    stacked.pbc = True
    assert_same(describe(slab, DEFAULT), describe(stacked, DEFAULT))
    assert np.abs(describe(slab, DEFAULT) - describe(ethanol(), DEFAULT)).max() > 0.001


def test_describe_far_tail_of_a_gaussian_is_zero() -> None:
    vector = describe(ethanol(), DEFAULT)
    assert vector[vector != 0].min() >= 1e-8


@pytest.mark.parametrize(
    ("atoms", "text"),
    [
        (
            Atoms("CBrI", [(0, 0, 0), (0, 0, 2), (0, 0, 4.2)]),
            "contains Br, I, which the descriptor was not set up for; accepted: H C N O.",
        ),
        (
            Atoms("CX", [(0, 0, 0), (0, 0, 2)]),
            "contains X, which the descriptor was not set up for",
        ),
        (Atoms(), "has no atoms."),
        (Atoms("C", [(0, 0, np.nan)]), "has positions or a cell that are not finite numbers."),
        (
            Atoms("C", cell=[(4, 0, 0), (0, 4, 0), (4, 4, 0)], pbc=True),
            "is periodic but its cell has no volume; "
            "give three lattice vectors that are not in one plane.",
        ),
        (Atoms("C", cell=[4, 4, 0], pbc=True), "is periodic but its cell has no volume"),
        (
            Atoms("C", cell=[0.2, 0.2, 0.2], pbc=True),
            "atoms within 4 angstroms of its cell; accepted: 15,000.",
        ),
        (
            Atoms("C", cell=[0.2, 0.2, 0.2], pbc=True),
            "Check the cell (0.01 cubic angstroms per atom)",
        ),
    ],
    ids=[
        "elements",
        "no element",
        "empty",
        "nan",
        "flat cell",
        "missing vector",
        "tiny cell",
        "tiny cell, advice",
    ],
)
def test_obstacle_of_structure_that_cannot_be_described_is_one_sentence(
    atoms: Atoms, text: str
) -> None:
    reason = obstacle(atoms, DEFAULT)
    assert reason is not None
    assert text in reason


def test_roots_are_square_roots_of_the_plain_values_and_the_size_is_last() -> None:
    plain = CONFIGS["k1 k2 per heavy atom"]
    rooted = CONFIGS["square roots and size"]
    for atoms, heavy in ((ethanol(), (3,)), (crystal(), (4, 1))):
        vector = describe(atoms, rooted)
        np.testing.assert_allclose(vector[:-1], np.sqrt(describe(atoms, plain)), atol=1e-12)
        # Every heavy atom has the size of its molecule.
        sizes = np.repeat(np.log(heavy), heavy)
        assert vector[-1] == pytest.approx(sizes.mean())
    assert feature_blocks(rooted)[-1] == ("size", slice(n_features(plain), n_features(plain) + 1))


def test_neutral_descriptor_describes_the_neutral_form() -> None:
    config = CONFIGS["k1 k2 per heavy atom"]
    ions = side_by_side(ammonium(), formate())
    vector = describe(ions, dataclasses.replace(config, neutral=True))
    np.testing.assert_array_equal(vector, describe(neutral_form(ions), config))
    assert np.abs(vector - describe(ions, config)).max() > 0.01
    np.testing.assert_array_equal(
        describe(ethanol(), dataclasses.replace(config, neutral=True)), describe(ethanol(), config)
    )
