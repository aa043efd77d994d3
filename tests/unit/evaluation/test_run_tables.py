"""Runs beside each other: figures, what differs, what is flagged, and learning curves."""

import numpy as np
import pytest

from bandgap.evaluation.run_tables import (
    StoredRun,
    difference_table,
    differences,
    differing_settings,
    figures_table,
    split_flags,
)
from tests.unit.evaluation.test_paired import N, noise, normal_heldout

ERRORS = noise(21, 0.3)


def stored(name, errors, *, rows=None, data="crystals", level="PBE", content="1", seed=0, **more):
    heldout = normal_heldout(errors) if rows is None else normal_heldout(errors).rows(rows)
    manifest = {
        "title": name, "n": 100, "level_of_theory": level, "data": {"fingerprint": content},
        "split": {"test": list(heldout.predictions.ids)},
        "config": {"lr": 0.1, "sampler": {"warmup": 10}},
        "request": {"seed": seed, "by_formula": False, "test_known": False, "levels": "none"},
        "metrics": {"nll": 0.5},
        "elapsed_s": {"fit": 1.0, "all": 2.5},
        "peak_memory_bytes": {"process": 3_000_000},
    }  # fmt: skip
    return StoredRun(name, name, manifest | more, heldout, data=data)


def test_figures_table_has_one_row_a_run_with_time_and_memory():
    old = stored("old", 2 * ERRORS, elapsed_s={}, peak_memory_bytes={}, metrics={})
    table = figures_table([stored("new", ERRORS), old]).set_index("run")
    assert table.loc["old", "rmse_eV"] == pytest.approx(2 * table.loc["new", "rmse_eV"])
    assert table.loc["new", ["time_s", "memory_MB", "nll", "held_out"]].tolist() == [
        2.5,
        3.0,
        0.5,
        N,
    ]
    assert table.loc["old", ["time_s", "memory_MB", "nll"]].isna().all()


def test_only_settings_that_differ_are_shown():
    other = stored(
        "b", ERRORS, config={"lr": 0.2, "sampler": {"warmup": 10}, "extra": True}, seed=4
    )
    table = differing_settings([stored("a", ERRORS), other])
    assert table.to_dict("list") == {
        "setting": ["method", "seed", "lr"],
        "a": ["a", "0", "0.1"],
        "b": ["b", "4", "0.2"],
    }


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (
            stored("a", ERRORS, rows=np.arange(100)),
            "tested on different crystals (100 and 400, 100 in common",
        ),
        (
            stored("a", ERRORS, data="others", content="2"),
            "a learned from others, b from crystals.",
        ),
        (
            stored("a", ERRORS, content="2"),
            "The data set crystals got other structures or gaps between a and b.",
        ),
        (stored("a", ERRORS, level="GW"), "Levels of theory are mixed (GW, PBE)."),
    ],
    ids=["split", "data", "labels", "level"],
)
def test_split_flags_name_the_differences_between_runs(run, text):
    (flag,) = split_flags(run, stored("b", ERRORS))
    assert text in flag


def test_differences_to_the_baseline_explain_missing_ones():
    runs = [
        stored("good", ERRORS / 2),
        stored("base", ERRORS),
        stored("elsewhere", ERRORS, rows=np.arange(5)),
    ]
    rows = differences(runs, runs[1])
    assert [run.label for run, _, _ in rows] == ["good", "elsewhere"]
    assert "better than base on these 400 crystals" in rows[0][2]
    assert rows[1][1] is None and rows[1][2].startswith("no difference can be taken. 5 structures")
    table = difference_table(rows)
    assert table["structures"].tolist() == [400, 0] and np.isnan(table["difference_eV"][1])
    assert table["difference_eV"][0] == pytest.approx(-np.sqrt(np.mean(ERRORS**2)) / 2)
