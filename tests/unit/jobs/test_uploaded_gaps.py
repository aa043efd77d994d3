"""Tables of gaps that are uploaded together with the structures."""

import pytest

from bandgap.jobs.uploaded_gaps import gaps_payload, is_gap_table

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
