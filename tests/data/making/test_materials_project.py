"""The maker of the second demo: families, refusals, and the shipped files made again."""

import json

import pytest

from bandgap.datasets.demo import inorganic_folder, read_demo_manifest
from bandgap.foundation.errors import InputError
from data.making.materials_project import family, make_inorganic_demo


def test_family_writes_elements_of_a_group_alike_and_keeps_others():
    assert family(["Na", "Cl"]) == family(["K", "K", "I", "I"]) != family(["Mg", "O"])
    assert family(["C", "H", "La"]) == family(["Gd", "C", "H"]) == "CHSc"


def test_folder_without_the_raw_files_is_refused_by_their_names(tmp_path):
    with pytest.raises(
        InputError, match=r"has no cifs\.zip\. Give the folder with the structures and the table"
    ):
        make_inorganic_demo(tmp_path, tmp_path / "out")


@pytest.mark.data
def test_what_is_shipped_is_made_again_from_the_test_data_byte_for_byte(test_data, tmp_path):
    made = make_inorganic_demo(test_data / "mp_crystals_pbe", tmp_path)
    fresh, shipped = json.loads(made.read_text()), read_demo_manifest(inorganic_folder())
    assert fresh == {name: value for name, value in shipped.items() if name != "source_model"}
