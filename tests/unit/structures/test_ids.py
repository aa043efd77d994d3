"""The id of a structure is found by the same keys in every format."""

import json

import pytest

from bandgap.structures import read_structures
from bandgap.structures.ids import stated_id
from tests.unit.structures.samples import cif, parquet, read_one

FRAME = '2\n{}={} Lattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3\nCs 0 0 0\nCl 2 2 2\n'
ENTRY = {"numbers": [55, 17], "positions": [[0, 0, 0], [2, 2, 2]], "cell": [4, 4, 4]}


@pytest.mark.parametrize("key", ["id", "material_id", "entry_id", "mat_id", "qmof_id", "uid"])
def test_key_of_an_id_counts_in_every_format(key: str):
    texts = {
        "a.extxyz": FRAME.format(key, "x-7"),
        "a.json": json.dumps(ENTRY | {key: "x-7"}),
        "b.json": json.dumps(ENTRY | {"data": {key: "x-7"}}),
        "c.json": json.dumps(ENTRY | {key: {"@class": "MPID", "string": "x-7"}}),
        "a.csv": f'{key},cif\nx-7,"{cif()}"\n',
    }
    assert {read_one(text, name).id for name, text in texts.items()} == {"x-7"}
    row = {"symbols": ["Cs", "Cl"], "positions": [0, 0, 0, 2, 2, 2], "cell": [], key: "x-7"}
    assert [record.id for record in read_structures(parquet(row), "a.parquet")] == ["x-7"]


@pytest.mark.parametrize(
    ("fields", "id"),
    [
        ({"name": "NaCl", "Material ID": "mp-1"}, "mp-1"),
        ({"entry_id": None, "mat_id": "agm1"}, "agm1"),
        ({"cod_id": 1000041}, "1000041"),
        ({"cod_id": 1000041.0}, "1000041"),
        ({"id": "00011"}, "00011"),
        ({"id": True, "uid": float("nan"), "fold_id": 3, "spacegroup_id": 225}, ""),
    ],
)
def test_first_key_with_a_text_or_whole_number_names_the_structure(
    fields: dict[str, object], id: str
):
    assert stated_id(fields) == id
