"""Labels find their structures by id or file name, leniently but never by guessing."""

import numpy as np
import pytest

from bandgap.datasets.labels import match_labels, read_labels


def labels_for(header, *names):
    rows = "".join(f"{name},{i}.5\n" for i, name in enumerate(names))
    return read_labels(f"{header},gap_eV\n{rows}".encode())


@pytest.mark.parametrize(
    ("header", "name", "structure_id", "file"),
    [
        pytest.param("id", "KAXCUK", "KAXCUK", "all.extxyz", id="id"),
        pytest.param("id", "00011", "00011", "", id="numeric-looking-id"),
        pytest.param("file", "a.cif", "shelx", "a.cif", id="file"),
        pytest.param("file", "set/a.cif", "shelx", "set/a.cif", id="file-with-folder"),
        pytest.param("file", "a.cif", "shelx", "upload.zip/set/a.cif", id="folder-left-off"),
        pytest.param("file", "C:\\mine\\a.cif", "shelx", "a.cif", id="windows-folder"),
        pytest.param("file", "a", "shelx", "a.cif", id="ending-left-off"),
        pytest.param("id", "a", "shelx", "a.extxyz.gz", id="id-is-the-file-without-ending"),
        pytest.param("id", "a.cif", "shelx", "a.cif", id="id-is-the-file"),
        pytest.param("file", "KAXCUK.cif", "KAXCUK", "all.extxyz", id="file-is-the-id"),
        pytest.param("id", "kaxcuk", "KAXCUK", "", id="case"),
        pytest.param("file", "A.CIF", "shelx", "a.cif", id="file-case"),
        pytest.param("id", "mol.v1.2", "mol.v1.2", "", id="dots-in-a-name"),
        pytest.param("file", "c1/POSCAR", "a", "/tmp/D/c1/POSCAR", id="path-below-a-folder"),
        pytest.param("file", "./D/c1/POSCAR", "a", "up.zip/c1/POSCAR", id="folder-above"),
        pytest.param("id", "1000041.0", "1000041", "", id="id-as-a-float"),
        pytest.param("file", "1000041.0", "x", "1000041.cif", id="file-as-a-float"),
    ],
)
def test_match_labels_name_finds_its_structure(header, name, structure_id, file):
    matched = match_labels(["other", structure_id], ["other.xyz", file], labels_for(header, name))
    np.testing.assert_array_equal(matched.gaps, [np.nan, 0.5])
    assert matched.unmatched_labels == ()
    assert matched.unmatched_structures == ("other",)


def test_match_labels_folders_tell_files_of_one_name_apart():
    files = [f"/tmp/D/{folder}/POSCAR" for folder in ("a/x", "b/x", "b/y")]
    labels = labels_for("file", "b/x/POSCAR", "b/y/POSCAR", "a/x/POSCAR")
    matched = match_labels(["x", "x-2", "y"], files, labels)
    np.testing.assert_array_equal(matched.gaps, [2.5, 0.5, 1.5])


@pytest.mark.parametrize(
    "table",
    [
        b"id,material_id,gap_eV\n1,mp-1,1\n2,mp-2,2\n",
        b"name,material_id,gap_eV\nNaCl,mp-1,1\nNaCl,mp-2,2\n",
        b"id,uid,gap_eV\nmp-1,x,1\nmp-2,y,2\n",
        b"id,jid,uid,gap_eV\n1,JVASP-9,mp-1,1\n1,JVASP-7,mp-2,2\n",
    ],
    ids=["running number", "formula", "first column", "third column"],
)
def test_match_labels_column_that_fits_the_structures_counts(table):
    matched = match_labels(["mp-2", "mp-1"], ["a.json"] * 2, read_labels(table))
    np.testing.assert_array_equal(matched.gaps, [2.0, 1.0])


def test_match_labels_numeric_ids_match_as_text_only():
    matched = match_labels(["11", "00011"], ["", ""], labels_for("id", "0011", "00011"))
    np.testing.assert_array_equal(matched.gaps, [np.nan, 1.5])
    assert matched.unmatched_labels == ("0011",)


def test_match_labels_exact_name_wins_over_lenient_ones():
    matched = match_labels(["x", "a", "A"], ["a.cif", "1.cif", "2.cif"], labels_for("id", "A", "a"))
    np.testing.assert_array_equal(matched.gaps, [np.nan, 1.5, 0.5])


@pytest.mark.parametrize(
    ("ids", "files", "names", "sentence"),
    [
        pytest.param(
            ["b1", "b2"],
            ["a.cif", "a.cif"],
            ["a.cif"],
            "One label named 'a.cif' fit b1 in a.cif, b2 in a.cif: not used.",
            id="blocks",
        ),
        pytest.param(
            ["1", "1"], ["", ""], ["1"], "One label named '1' fit 1, 1: not used.", id="same-id"
        ),
        pytest.param(
            ["ab"], [""], ["AB", "Ab"], "2 labels named 'AB' fit ab: not used.", id="case"
        ),
    ],
)
def test_match_labels_name_that_fits_several_is_left_open_and_reported(ids, files, names, sentence):
    matched = match_labels(ids, files, labels_for("id", *names))
    assert matched.n_matched == 0
    assert matched.problems[0].startswith(sentence)


def test_match_labels_file_column_decides_between_equal_ids():
    table = b"id,file,gap_eV\nshelx,a/1.cif,1\nshelx,b/1.cif,2\n"
    matched = match_labels(["shelx", "shelx"], ["b/1.cif", "a/1.cif"], read_labels(table))
    np.testing.assert_array_equal(matched.gaps, [2.0, 1.0])
    assert matched.problems == ()


def test_match_labels_summary_says_what_is_left_on_both_sides():
    matched = match_labels(["a", "b", "c"], ["", "", ""], labels_for("id", "c", "d"))
    assert matched.summary == (
        "1 of 3 structures have a label; 2 structures have no label (a, b); "
        "1 label has no structure (d)."
    )
