"""Generation of the second demo: families, errors, and the shipped files."""

import json

import pytest

from bandgap.datasets.demo import inorganic_folder, read_demo_manifest
from data.making.materials_project import family, make_inorganic_demo


def test_family_is_the_same_for_elements_of_a_group():
    assert family(["Na", "Cl"]) == family(["K", "K", "I", "I"]) != family(["Mg", "O"])
    assert family(["C", "H", "La"]) == family(["Gd", "C", "H"]) == "CHSc"


@pytest.mark.slow
@pytest.mark.data
def test_shipped_files_are_reproduced_byte_for_byte(test_data, tmp_path):
    manifest = make_inorganic_demo(test_data / "mp_crystals_pbe", tmp_path)
    regenerated = json.loads(manifest.read_text())
    shipped = read_demo_manifest(inorganic_folder())
    assert regenerated == {name: value for name, value in shipped.items() if name != "source_model"}
