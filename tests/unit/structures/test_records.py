"""The record's properties and the limits."""

import numpy as np

from bandgap.structures import Problem, StructureRecord
from tests.unit.structures.samples import METHANE_XYZ, read_one


def record(*problems: Problem) -> StructureRecord:
    return StructureRecord("a", "a.cif", "CIF", None, problems)


def test_status_is_the_most_severe_of_the_problems():
    warning = Problem("warning", "w")
    refusal = Problem("refused", "r")
    assert [r.status for r in (record(), record(warning), record(warning, refusal))] == [
        "ready",
        "warning",
        "refused",
    ]


def test_verdict_joins_the_sentences():
    assert (
        record(Problem("warning", "one"), Problem("warning", "two")).verdict == "usable: one; two"
    )
    assert record().verdict == "ready"


def test_refused_record_is_empty_in_every_property():
    refused = record(Problem("refused", "r"))
    assert (refused.formula, refused.n_atoms, refused.periodic, refused.content) == (
        "",
        0,
        False,
        "",
    )


def test_content_is_equal_for_equal_structures_and_differs_otherwise():
    first = read_one(METHANE_XYZ, "a.xyz")
    second = read_one(METHANE_XYZ.replace("methane", "other"), "b.xyz")
    assert first.content == second.content
    assert len(first.content) == 64
    assert first.content != read_one(METHANE_XYZ.replace("0.629", "0.630", 1), "a.xyz").content
    assert first.atoms is not None
    first.atoms.set_cell(np.eye(3))
    assert first.content != second.content


def test_content_does_not_depend_on_the_sign_of_zero():
    assert (
        read_one("1\n\nH 0 0 -0.0\n", "a.xyz").content
        == read_one("1\n\nH 0 0 0.0\n", "a.xyz").content
    )
