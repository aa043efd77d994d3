"""Protons of zwitterions and salts go back to the acid; everything else stays as it is."""

import numpy as np
import pytest
from ase import Atoms

from bandgap.structures.bonds import bonds
from bandgap.structures.zwitterions import neutral_form

SPACE = np.array([0.0, 0.0, 4.5])


def degrees_of(atoms, symbol):
    """Sorted numbers of neighbours of all atoms of an element."""
    ends = np.concatenate(bonds(atoms))
    return sorted(
        np.bincount(ends, minlength=len(atoms))[atoms.numbers == Atoms(symbol).numbers[0]].tolist()
    )


def fan(centre, around, radius, *, start=0.0, tilt=0.0):
    """Positions of atoms evenly around a centre: in a plane, or on a cone that points up."""
    angles = start + 2 * np.pi * np.arange(around) / around
    flat = radius * np.cos(tilt)
    up = radius * np.sin(tilt)
    circle = np.stack([flat * np.cos(angles), flat * np.sin(angles), np.full(around, up)], 1)
    return np.asarray(centre) + circle


def ammonium(place=(0.0, 0.0, 0.0)):
    """NH4+."""
    return Atoms(
        "NH4", np.vstack([[place], np.add(place, [[0, 0, 1.02]]), fan(place, 3, 1.02, tilt=-0.34)])
    )


def guanidinium():
    """C(NH2)3+, planar."""
    nitrogens = fan([0, 0, 0], 3, 1.33)
    hydrogens = []
    for n in nitrogens:
        out = n / np.linalg.norm(n)
        side = np.array([-out[1], out[0], 0.0])
        hydrogens += [n + 1.01 * (0.5 * out + sign * 0.866 * side) for sign in (1, -1)]
    return Atoms("CN3H6", np.vstack([[[0.0, 0, 0]], nitrogens, hydrogens]))


def formate():
    """HCO2-."""
    return Atoms("CO2H", [[0, 0, 0], [1.1, 0.6, 0], [-1.1, 0.6, 0], [0, -1.1, 0]])


def dithioformate():
    """HCS2-."""
    return Atoms("CS2H", [[0, 0, 0], [1.45, 0.8, 0], [-1.45, 0.8, 0], [0, -1.1, 0]])


def methanesulfonate():
    """CH3SO3-."""
    oxygens = fan([0, 0, 0], 3, 1.46, tilt=0.34)
    hydrogens = fan([0, 0, -1.8], 3, 1.09, start=1.0, tilt=-0.34)
    return Atoms("SO3CH3", np.vstack([[[0.0, 0, 0]], oxygens, [[0, 0, -1.8]], hydrogens]))


def phosphinate():
    """H2PO2-."""
    return Atoms(
        "PO2H2", [[0, 0, 0], [1.25, 0.8, 0], [-1.25, 0.8, 0], [0, -0.8, 1.2], [0, -0.8, -1.2]]
    )


def side_by_side(one, other, gap=SPACE):
    """Both in one structure, with a gap between their nearest planes."""
    other = other.copy()
    lift = one.positions[:, 2].max() - other.positions[:, 2].min()
    other.translate(gap + np.array([0, 0, lift]))
    return one + other


@pytest.mark.parametrize("base", [ammonium, guanidinium])
@pytest.mark.parametrize(
    ("acid", "taker"),
    [(formate, "O"), (dithioformate, "S"), (methanesulfonate, "O"), (phosphinate, "O")],
)
def test_base_gives_one_proton_to_the_acid(base, acid, taker):
    ions = side_by_side(base(), acid())
    before = ions.copy()
    neutral = neutral_form(ions)
    assert degrees_of(neutral, "N")[0] == degrees_of(ions, "N")[0] - 1
    assert sum(degrees_of(neutral, taker)) == sum(degrees_of(ions, taker)) + 1
    assert degrees_of(neutral, "H") == [1] * int((ions.numbers == 1).sum())
    assert (np.abs(neutral.positions - ions.positions).max(1) > 0).sum() == 1
    assert ions == before, "the structure given stays as it is"
    assert neutral_form(neutral) is neutral


def test_proton_moves_along_its_hydrogen_bond():
    acid = formate()
    base = ammonium()
    base.positions[:, 2] *= -1  # one hydrogen points down, at the acid's first oxygen
    base.translate(acid.positions[1] + [0, 0, 2.7])
    neutral = neutral_form(acid + base)
    assert np.allclose(neutral.positions[len(acid) + 1], acid.positions[1] + [0, 0, 0.97])


def test_formic_acid_without_a_hydrogen_bond_has_the_shape_of_formic_acid():
    neutral = neutral_form(side_by_side(ammonium(), formate()))
    carbon = 5
    first = 6
    second = 7
    taker, other = (
        (first, second) if len(neutral) and degrees(neutral)[first] == 2 else (second, first)
    )
    hydrogen = next(k for k in range(1, 5) if neutral.get_distance(k, taker) < 1.0)
    assert neutral.get_distance(hydrogen, taker) == pytest.approx(0.97)
    assert neutral.get_angle(carbon, taker, hydrogen) == pytest.approx(106.0)
    assert neutral.get_dihedral(other, carbon, taker, hydrogen) % 360 == pytest.approx(
        0.0, abs=1e-6
    )


def degrees(atoms):
    """Number of neighbours of every atom."""
    return np.bincount(np.concatenate(bonds(atoms)), minlength=len(atoms))


def test_every_proton_of_several_pairs_moves():
    pair = side_by_side(ammonium(), formate())
    neutral = neutral_form(side_by_side(pair, pair))
    assert degrees_of(neutral, "N") == [3, 3] and degrees_of(neutral, "O") == [1, 1, 2, 2]


def test_acids_without_a_proton_to_take_stay_ions():
    neutral = neutral_form(side_by_side(side_by_side(ammonium(), formate()), formate()))
    assert degrees_of(neutral, "N") == [3] and degrees_of(neutral, "O") == [1, 1, 1, 2]


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.7])
def test_crystal_cut_by_its_cell_is_treated_as_whole(shift):
    ions = side_by_side(ammonium(), formate(), gap=np.array([0, 0, 2.0]))
    crystal = ions.copy()
    crystal.set_cell([8.0, 8.0, 8.0])
    crystal.set_pbc(True)
    crystal.translate([shift] * 3)
    crystal.wrap()
    neutral = neutral_form(crystal)
    assert degrees_of(neutral, "N") == [3] and degrees_of(neutral, "O") == [1, 2]
    assert degrees_of(neutral_form(crystal.repeat((1, 2, 1))), "O") == [1, 1, 2, 2]


def test_urea_and_free_ions_are_returned_unchanged():
    urea = guanidinium()
    urea = urea[
        [k for k in range(len(urea)) if k not in (8, 9)]
    ]  # C(NH2)2 N, then the bare N becomes O
    urea.numbers[3] = 8
    for atoms in (
        side_by_side(urea, formate()),
        ammonium(),
        formate(),
        side_by_side(formate(), formate()),
    ):
        assert neutral_form(atoms) is atoms
