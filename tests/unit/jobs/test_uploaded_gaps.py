"""Tables of gaps that are uploaded together with the structures."""

import json

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.uploaded_gaps import gaps_payload, is_gap_table, uploaded_payload

CIF_TABLE = b'id,cif,gap_eV\na,"data_a\n_cell_length_a 5\n",1.2\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("gaps.csv", b"id,gap_eV\na,1.2\n", True),
        ("GAPS.TSV", b"id\tgap_eV\na\t1.2\n", True),
        ("gaps.csv", b'"id","gap_eV"\r\n"a","1.2"\r\n', True),
        ("structures.csv", CIF_TABLE, False),
        ("structures.csv", b'id;cif;gap_eV\na;"data_a\n_cell_length_a 5";1.2\n', False),
        ("structures.tsv", b'id\tcif\tgap_eV\na\t"data_a\n_cell_length_a 5"\t1.2\n', False),
        ("gaps.csv", b'id,gap_eV,note\na,1.2,"two\nlines"\n', True),
        ("a.cif", b"data_a\n", False),
    ],
    ids=[
        "comma",
        "tab",
        "quoted cells",
        "texts of structures",
        "texts of structures, semicolon",
        "texts of structures, tab",
        "note of two lines",
        "structure file",
    ],
)
def test_table_of_gaps_is_told_from_files_of_structures(
    name: str, content: bytes, expected: bool
) -> None:
    assert is_gap_table(name, content) is expected


def test_payload_has_the_gaps_of_all_columns_in_eV() -> None:
    payload = gaps_payload(b"id,gap_meV,gap_pbe_eV\na,1200,0.9\n", name="gaps.csv")
    assert payload["table"]["gaps_eV"] == pytest.approx([1.2])
    assert payload["other_columns"]["gap_pbe_eV"]["gaps_eV"] == [0.9]


def test_large_table_is_read_in_a_child_and_gives_the_same() -> None:
    table = b"id,gap_eV,gap_pbe_eV\n" + b"".join(b"s%d,1.5,0.5\n" % k for k in range(10_000))
    payload = uploaded_payload(table, name="gaps.csv", level_of_theory="HSE06")
    expected = gaps_payload(table, name="gaps.csv", level_of_theory="HSE06")
    assert payload == json.loads(json.dumps(expected))
    with pytest.raises(InputError, match="gaps.csv: row 10002 .*: not a band gap"):
        uploaded_payload(table + b"x,x,1\n", name="gaps.csv")


def test_table_of_more_than_200_000_rows_is_not_read() -> None:
    table = b"id,gap_eV\n" + b"a,1\n" * 200_001
    with pytest.raises(InputError, match="more than 200,000 rows, the limit"):
        uploaded_payload(table, name="gaps.csv")
