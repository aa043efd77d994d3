"""Levels of theory are compared as words, and mixing them is said."""

from bandgap.datasets.levels import distinct_levels, mixed_levels_warning


def test_distinct_levels_ignore_case_and_blanks():
    assert distinct_levels(["PBE", " pbe ", "", "HSE06  (vdW)"]) == ("PBE", "HSE06 (vdW)")


def test_mixed_levels_warning_only_where_they_differ():
    assert mixed_levels_warning(["PBE", "", "pbe"]) == ""
    assert "mixed (PBE, GW)" in mixed_levels_warning(["PBE", "GW"])
