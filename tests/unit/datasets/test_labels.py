"""Tables of gaps as people write them: units, separators, encodings, rows that cannot be used."""

import os
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.labels import match_labels, other_gaps, read_labels
from bandgap.datasets.units import EV_PER_HARTREE
from bandgap.foundation.errors import InputError
from tests.mutations import time_limit


def test_read_labels_id_and_gap_in_ev():
    labels = read_labels(
        b"id,formula,gap_eV\nKAXCUK,C10H8,3.25\n00011,C6H6,4.5\n", level_of_theory="PBE"
    )
    assert labels.ids == ("KAXCUK", "00011")
    assert labels.files == ()
    np.testing.assert_array_equal(labels.gaps_eV, [3.25, 4.5])
    assert (labels.unit, labels.column, labels.level_of_theory, labels.problems) == (
        "eV",
        "gap_eV",
        "PBE",
        (),
    )


@pytest.mark.parametrize(
    "header",
    [
        "gap_eV",
        "gap (eV)",
        "band_gap_ev",
        "Band gap [eV]",
        "bandgapEV",
        "Eg/eV",
        "E_gap (eV)",
        "HOMO-LUMO gap, eV",
        "gap_PBE_eV",
        "E_g (eV)",
        "Eg_eV",
        "e_g [eV]",
        "E_{g} (eV)",
        "bandgap (eV)",
        "band gap, eV",
    ],
)
def test_read_labels_header_that_states_ev_is_understood(header):
    labels = read_labels(f"id;{header}\na;2\n".encode())
    assert (labels.column, labels.gaps_eV[0]) == (header, 2.0)


@pytest.mark.parametrize(
    "header", ["gap_Ha", "gap (Hartree)", "band_gap_hartree", "gapHa", "HOMO-LUMO gap / Ha"]
)
def test_read_labels_header_that_states_hartree_is_converted(header):
    labels = read_labels(f"id;{header}\na;0.1\n".encode())
    assert labels.gaps_eV[0] == pytest.approx(0.1 * EV_PER_HARTREE)
    assert labels.unit == "Hartree"


def test_read_labels_unit_argument_serves_a_header_without_unit():
    assert read_labels(b"id,gap\na,0.1\n", unit="Hartree").gaps_eV[0] == pytest.approx(2.72113862)
    assert read_labels(b"id,gap\na,0.1\n", unit="eV").gaps_eV[0] == 0.1


@pytest.mark.parametrize(
    "header", ["ID", "Refcode", "structure_id", "material_id", "Name", "identifier"]
)
def test_read_labels_other_words_for_id_are_understood(header):
    assert read_labels(f"{header},gap_eV\na,1\n".encode()).ids == ("a",)


@pytest.mark.parametrize("header", ["file", "File name", "filename", "path", "structure file"])
def test_read_labels_words_for_file_are_understood(header):
    assert read_labels(f"{header},gap_eV\na.cif,1\n".encode()).files == ("a.cif",)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"id\tgap_eV\r\nb\xc3\xa4,r\t2.5\r\n", id="tab-crlf"),
        pytest.param(b"\xef\xbb\xbfid;gap_eV\nb\xc3\xa4,r;2.5\n", id="byte-order-mark"),
        pytest.param("id;gap_eV\nbä,r;2.5\n".encode("latin-1"), id="latin-1"),
        pytest.param("id\tgap_eV\nbä,r\t2.5\n".encode("utf-16"), id="utf-16"),
        pytest.param('"id","gap (eV, PBE)"\n"bä,r","2.5"\n'.encode(), id="quoted"),
        pytest.param("id;gap (eV, PBE)\nbä,r;2,5\n".encode(), id="decimal-comma"),
        pytest.param("\n id ; gap_eV \n\n bä,r ; 2.5 \n;;\n".encode(), id="blanks"),
    ],
)
def test_read_labels_separators_and_encodings_are_detected(data):
    labels = read_labels(data)
    assert labels.ids == ("bä,r",)
    assert labels.gaps_eV[0] == 2.5


def test_read_labels_plain_gap_column_wins_over_qualified_ones():
    labels = read_labels(b"id,gap_eV,inorganic_gap_eV,gap_type\na,1,2,direct\n")
    assert (labels.column, labels.gaps_eV[0]) == ("gap_eV", 1.0)


def test_read_labels_column_argument_chooses():
    labels = read_labels(b"id,gap_eV,inorganic_gap_eV\na,1,2\n", column="inorganic_gap_eV")
    assert labels.gaps_eV[0] == 2.0


def test_read_labels_rows_without_a_gap_are_left_out_and_named():
    labels = read_labels(b"id,gap_eV\na,1\nb,\nc,NaN\nd\n")
    assert labels.ids == ("a",)
    assert labels.problems == ("labels: rows 3 (b), 4 (c), 5 (d): no gap, left out.",)


def test_read_labels_same_row_twice_counts_once():
    assert read_labels(b"id,gap_eV\na,1\na,1.0\nb,2\n").ids == ("a", "b")


def test_read_labels_level_of_theory_column_is_carried_and_mixing_warned():
    labels = read_labels(b"id,gap_eV,level_of_theory\na,1,PBE\nb,2,pbe\nc,3,GW\n")
    assert labels.level_of_theory == "PBE; GW"
    assert labels.problems[0].startswith("Levels of theory are mixed (PBE, GW). ")


def test_read_labels_path_is_named_in_messages(tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_bytes(b"id,gap\na,1\n")
    with pytest.raises(
        InputError, match=r"gaps\.csv: the header 'gap' states no unit, and a unit is never guessed"
    ):
        read_labels(path)
    with pytest.raises(
        InputError, match=r"absent\.csv: the table of labels cannot be read \(No such file"
    ):
        read_labels(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "labels: the table is empty", id="empty"),
        pytest.param(b"PK\x03\x04\x00\x00", "not a text table. Save it as CSV", id="workbook"),
        pytest.param(b"id,gap_eV\n", "a header and no rows", id="no-rows"),
        pytest.param(b"id,gap_eV\na,\n", "the gap column is empty in every row", id="no-gaps"),
        pytest.param(
            b"crystal,gap_eV\na,1\n",
            r"no column names the structures. Found: 'crystal', 'gap_eV'. "
            r"Accepted: a column headed id or file",
            id="id",
        ),
        pytest.param(
            b"id,energy_eV\na,1\n", "no gap column. Accepted: .* Found: 'id', 'energy_eV'", id="gap"
        ),
        pytest.param(
            b"id gap_eV\na 1\n",
            r"no column names the structures. .*comma, semicolon or tab",
            id="spaces",
        ),
        pytest.param(
            b"id,gap_pbe_eV,gap_gw_eV\na,1,2\n",
            r"several gap columns \('gap_pbe_eV', 'gap_gw_eV'\). Say which one: `--column",
            id="two-gaps",
        ),
        pytest.param(
            b"id,gap_nm\na,1\n",
            "'gap_nm' states the unit nm. Accepted: eV, meV, Hartree",
            id="nm",
        ),
        pytest.param(
            b"a1,1.25\na2,2.5\n",
            r"the first line \(a1,1.25\) holds values and no headers. Add a line of headers above"
            " it, such as id,gap_eV",
            id="no-headers",
        ),
        pytest.param(
            b"id,gap_eV\na,2684.5\nb,1000\n",
            r"Is the unit meV\? Write it into the header \(gap_meV\)",
            id="probably-mev",
        ),
        pytest.param(
            b"id,gap_eV\na,2684.5\nb,1.2\nc,1.1\n",
            r"Is 2684.5 in meV, unlike the other rows\? Write all gaps in one unit",
            id="one-row-in-mev",
        ),
        pytest.param(
            b"id,gap_Ha\na,5\nb,6\n",
            r"5 Hartree is 136.1 eV. Is the unit right\?",
            id="electronvolts-as-hartree",
        ),
        pytest.param(
            b"id,band_gap\na,1\n",
            "states no unit, and a unit is never guessed.*`--unit eV`.*on the page Data",
            id="no-unit",
        ),
        pytest.param(
            b"id,gap_eV\na,x\nb,-1\nc,inf\n",
            r"rows 2 \('x'\), 3 \('-1'\), 4 \('inf'\): not a band gap",
            id="bad",
        ),
        pytest.param(
            b"id,gap_eV\na,2684\n",
            r"row 2 \('2684'\): not a band gap. Accepted: .* from 0 to 100 eV",
            id="mev-values",
        ),
        pytest.param(
            b"id,gap_eV\n" + b"".join(b"a%d,x\n" % i for i in range(9)),
            r"6 \('x'\) and 4 more: not a band gap",
            id="many",
        ),
        pytest.param(
            b"id,gap_eV\na,2,68\n",
            r"row 2 \(3 cells\): more cells than the header, which has 2. If this is a decimal",
            id="comma",
        ),
        pytest.param(
            b"id;gap_eV\na;2,6\nb;2.5\n",
            "Decimal points and decimal commas are mixed; write points",
            id="mixed",
        ),
        pytest.param(b"id,gap_eV\n,2.5\n", "row 2: a gap without a name", id="nameless"),
        pytest.param(
            b"id,gap_eV\na,1\nb,2\na,1.5\n",
            r"'a' has different gaps \(row 2: 1 eV, row 4: 1.5 eV\). Keep one row",
            id="clash",
        ),
    ],
)
def test_read_labels_unusable_table_is_refused_with_place_and_remedy(data, text):
    with pytest.raises(InputError, match=text):
        read_labels(data)


def test_read_labels_gap_of_a_hundred_thousand_digits_is_refused_at_once_and_shown_in_part():
    with time_limit(1.0), pytest.raises(InputError) as refused:
        read_labels(b"id,gap_eV\na," + b"9" * 100_000 + b"x\n")
    assert str(refused.value).startswith(
        "labels: row 2 ('9999999999999999999999999999999999999...'): not a band gap."
    )


def test_read_labels_names_with_line_breaks_and_control_characters_are_shown_without():
    labels = read_labels(b'id,gap_eV,theory\n"a\nb\x1b[2J",,\nc,1,PBE\nd,2,"G\x07W"\n')
    assert labels.problems[0] == "labels: row 2 (a?b?[2J): no gap, left out."
    assert labels.level_of_theory == "PBE; G?W"
    labels = read_labels(b'id,gap_eV\n"a\nb",1\n')
    assert match_labels(["c"], [""], labels).summary.endswith("1 label has no structure (a?b).")


def test_read_labels_unit_argument_against_the_header_is_refused():
    with pytest.raises(InputError, match="'gap_eV' states eV, but the unit was given as Hartree"):
        read_labels(b"id,gap_eV\na,1\n", unit="Hartree")
    with pytest.raises(InputError, match="unit is 'Ry'. Accepted: eV, meV"):
        read_labels(b"id,gap\na,1\n", unit="Ry")
    with pytest.raises(InputError, match="no column 'g'. Found: 'id', 'gap_eV'"):
        read_labels(b"id,gap_eV\na,1\n", column="g")


@pytest.mark.data
@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("dj_perovskite_hse/dj_perovskite_hse.csv", 353),
        ("qm9_gap/qm9_gap.csv", 16000),
        ("conjugated_b3lyp/conjugated_b3lyp.csv", 3419),
        ("jarvis_poscar_sample/jarvis_poscar_sample.csv", 40),
        ("mp_crystals_pbe/mp_crystals_pbe.csv", 2400),
    ],
)
def test_read_labels_real_tables_are_read_whole(table, rows):
    if "BANDGAP_TEST_DATA" not in os.environ:
        pytest.skip("BANDGAP_TEST_DATA is not set")
    labels = read_labels(Path(os.environ["BANDGAP_TEST_DATA"]) / table)
    assert len(labels) == rows
    assert labels.column == "gap_eV"


@pytest.mark.parametrize(
    ("header", "factor"),
    [
        ("gap (meV)", 1e-3),
        ("gap (kcal/mol)", 0.04336410),
        ("gap (kJ/mol)", 0.01036427),
        ("gap (cm^-1)", 1.23984198e-4),
        ("gap (cm\u207b\u00b9)", 1.23984198e-4),
        ("gap (Ry)", 13.605693),
    ],
)
def test_read_labels_units_are_converted_to_ev(header: str, factor: float):
    labels = read_labels(f"id;{header}\na;2\n".encode())
    assert labels.gaps_eV[0] == pytest.approx(2 * factor, rel=1e-6)


@pytest.mark.parametrize("header", ["mp_id", "cod_id", "uid", "qmof_id", "jid", "material_id"])
def test_read_labels_id_columns_of_databases_are_recognised(header: str):
    assert read_labels(f"{header},gap_eV\nx-1,1\n".encode()).ids == ("x-1",)


def test_read_labels_id_column_may_be_named():
    table = b"compound,id,gap_eV\nx,1,2.5\n"
    assert read_labels(table, id_column="compound").ids == ("x",)
    with pytest.raises(InputError, match="no column 'c'. Found: 'compound', 'id', 'gap_eV'"):
        read_labels(table, id_column="c")


@pytest.mark.parametrize("first_line", ["sep=;", "SEP=;"])
def test_read_labels_separator_line_of_excel_is_skipped(first_line: str):
    labels = read_labels(f"{first_line}\nid;gap_eV\na;1,25\n".encode())
    assert labels.gaps_eV.tolist() == [1.25]


@pytest.mark.parametrize(
    "cell",
    [
        "#N/A", "<NA>", "n.a.", "#NULL!", "-nan", "#N/A N/A", "NaT", "\u2013", "\u2014", "#NUM!",
        "#DIV/0!", "#VALUE!", "#REF!", "1.#IND",
    ],
)  # fmt: skip
def test_read_labels_texts_for_no_value_are_empty_cells(cell: str):
    labels = read_labels(f"id,gap_eV\na,1\nb,{cell}\n".encode())
    assert labels.ids == ("a",)
    assert labels.problems == ("labels: row 3 (b): no gap, left out.",)


@pytest.mark.parametrize(
    "header",
    [
        "gap^2 (eV^2)", "gap\u00b2 (eV\u00b2)", "gap**2 (eV)", "1/gap (1/eV)", "gap_squared_eV",
        "gap x 10^-3 (eV)", "gap (10\u207b\u00b3 eV)", "gap (eV) * 1000", "gap (1e-3 eV)",
        "gap - mean (eV)", "gap minus mean (eV)", "HSE gap - PBE gap (eV)", "gap_centred_eV",
        "gap correction (eV)", "scissor gap (eV)", "log_gap_eV",
    ],
)  # fmt: skip
def test_header_of_a_number_computed_from_gaps_is_no_gap(header):
    with pytest.raises(InputError, match="no gap column"):
        read_labels(f"id,{header}\na,1.5\n".encode())
    labels = f"id,{header},gap_eV\na,1.5,2\n".encode()
    assert read_labels(labels).gaps_eV[0] == 2
    assert other_gaps(labels, gap_column="gap_eV", name="t") == {}


@pytest.mark.parametrize(
    "header",
    [
        "gap (cm^-1)",
        "gap (cm\u207b\u00b9)",
        "gap - PBE (cm-1)",
        "gap_mean_cm1",
        "gap_corrected_cm1",
    ],
)
def test_header_with_a_sign_that_changes_nothing_is_a_gap(header):
    assert read_labels(f"id,{header}\na,10000\n".encode()).gaps_eV[0] == pytest.approx(
        1.24, abs=0.01
    )


@pytest.mark.parametrize("header", ["gap_std_eV", "gap error (eV)", "gap_eV_MAE"])
def test_read_labels_column_of_errors_is_no_gap(header: str):
    assert read_labels(f"id,{header},gap_pbe_eV\na,0.1,1.5\n".encode()).gaps_eV[0] == 1.5
    with pytest.raises(InputError, match="no gap column"):
        read_labels(f"id,{header}\na,0.1\n".encode())


def test_read_labels_energy_per_atom_is_no_gap():
    with pytest.raises(InputError, match="states the unit atom"):
        read_labels(b"id,gap (eV/atom)\na,0.1\n")


def test_read_labels_comma_that_may_separate_thousands_is_refused():
    with pytest.raises(InputError, match="may separate thousands or decimals"):
        read_labels(b"id;gap_meV\na;1,500\nb;2,684\n")
    assert read_labels(b"id;gap_meV\na;1500,25\n").gaps_eV[0] == pytest.approx(1.50025)
    assert read_labels(b"id;gap_eV\na;1,500\n").gaps_eV[0] == 1.5


def test_read_labels_small_gaps_in_another_unit_ask_for_the_unit():
    (problem,) = read_labels(b"id,gap_meV\na,1.5\nb,2.5\n").problems
    assert problem == (
        "The largest gap of gap_meV is 0.0025 eV, read as meV. Is the unit in the header right?"
    )
    assert read_labels(b"id,gap_meV\na,1.5\nb,2500\n").problems == ()


def test_read_labels_first_line_with_an_empty_value_is_no_header():
    with pytest.raises(InputError, match="holds values and no headers"):
        read_labels(b"mp-1,nan\nmp-2,1.5\n")


def test_read_labels_quoted_decimal_commas_have_a_remedy():
    with pytest.raises(InputError, match="Write decimal points, or separate the columns by semi"):
        read_labels(b'id,gap_eV\na,"1,5"\n')


@pytest.mark.parametrize("header", ["log10_gap_eV", "gap_eV_difference", "delta gap (eV)"])
def test_column_computed_from_gaps_is_no_gap_column_unless_it_is_named(header: str) -> None:
    table = f"id,{header}\na,1.5\nb,2.5\n".encode()
    with pytest.raises(InputError, match="no gap column"):
        read_labels(table)
    assert read_labels(table, column=header).gaps_eV.tolist() == [1.5, 2.5]
