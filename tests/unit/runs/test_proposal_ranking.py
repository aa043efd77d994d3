"""The order of proposed molecules: warnings, and the chance of a window."""

import dataclasses

import numpy as np

from bandgap.predictions.table import Predictions, predictions_from_draws
from bandgap.predictions.window import Window
from bandgap.proposals.candidates import CandidateCounts
from bandgap.runs.molecule_proposals import ProposedMolecules, ranked_rows
from bandgap.runs.proposal_files import extxyz_text
from tests.unit.conftest import make_records

NAN = np.nan
WINDOW = Window(2.9, 3.1)
# columns: in the window; unusual; an unseen element; a warning; outside; refused; a tie
P = np.array([0.30, 0.05, NAN, 0.60, 0.90, NAN, 0.40])
MEANS = [3.0, 3.0, 3.0, 3.0, 4.0, 3.0, 3.0]
STATUS = ["ok", "ok", "ok", "warning", "ok", "refused", "ok"]


def predictions() -> Predictions:
    n = len(MEANS)
    return predictions_from_draws(
        np.tile(MEANS, (20, 1))[:, np.array(STATUS) != "refused"],
        np.full(20, 0.2),
        ids=[f"proposal-{k}" for k in range(n)],
        files=[""] * n,
        formulas=["CH4"] * n,
        domain=["ok"] * n,
        status=STATUS,
        problem=[""] * n,
        domain_p=P,
    )


def proposed(table: Predictions) -> ProposedMolecules:
    chances = table.window_probability(WINDOW)
    is_known = [False] * len(table)
    rows = ranked_rows(table, chances, is_known, count=10)
    candidates = tuple(
        dataclasses.replace(record, info={"smiles": "C"})
        for record in make_records(len(table), seed=0, prefix="proposal")
    )
    counts = CandidateCounts(7, 7, 7, 7, 7, 7, 7, 7)
    return ProposedMolecules(
        candidates,
        table,
        tuple(is_known),
        tuple(rows),
        chances[rows],
        np.full(len(rows), 1.234),
        ("nitro_group",) * len(rows),
        counts,
        geometry_rms_eV=None,
        window=WINDOW,
        property_shift={"rings": 0.25},
        property_floor={"rings": 0.125},
    )


def test_molecules_are_ranked_by_the_window_and_warnings_are_last() -> None:
    table = predictions()
    chances = table.window_probability(WINDOW)
    assert ranked_rows(table, chances, [False] * 7, count=10) == [0, 1, 2, 6, 4, 3]


def test_known_molecules_do_not_count() -> None:
    table = predictions()
    is_known = [False] * 6 + [True]
    rows = ranked_rows(table, table.window_probability(WINDOW), is_known, count=2)
    assert rows == [0, 1]


def test_table_and_structures_have_the_p_value() -> None:
    molecules = proposed(predictions())
    columns = molecules.columns()
    np.testing.assert_array_equal(columns["domain_p"], P[[0, 1, 2, 6, 4, 3]])
    assert columns["sa_score"] == [1.23] * 6
    assert columns["alerts"] == ["nitro_group"] * 6
    first = extxyz_text(molecules).splitlines()[1]
    assert "domain_p=0.3 " in first and "p_window=" in first
