"""Filters of the table of predictions: elements, ranges of the gap and of the size."""

import numpy as np
import pytest

from app.components.predict.prediction_table import Filter, Table, elements_of_formula
from app.components.predict.prediction_view import interval_caption
from bandgap.jobs.structure_filter import StructureFilter
from bandgap.plots.predictions import MAX_INTERVALS, intervals
from bandgap.predictions.details import PredictionDetails

FORMULAS = ("CaO", "C2H4", "PbI2", "CsPbI3", "PbBr2")
GAPS = np.array([4.0, 6.5, 2.4, np.nan, 3.0])
N_ATOMS = np.array([2, 12, 3, 0, 9])


@pytest.fixture
def table() -> Table:
    """Five predicted structures, the fourth one refused."""
    n = len(FORMULAS)
    columns = {
        "id": [f"s{k}" for k in range(n)],
        "file": ["all.extxyz"] * n,
        "formula": FORMULAS,
        "mean_eV": GAPS,
        "status": ["ok", "ok", "ok", "refused", "warning"],
    }
    details = PredictionDetails(
        nearest=("a", "b", "c", "", "e"),
        n_atoms=N_ATOMS,
        distance=np.full(n, 0.1),
        percentile=np.full(n, 0.5),
        labelled=np.zeros(n, dtype=bool),
        joint_rows=np.empty(0, dtype=np.int64),
        means_eV=np.empty((1, 0), dtype=np.float32),
        noise_variance=np.empty(0),
    )
    return Table(columns, details)


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        (StructureFilter(elements=("Pb",)), [2, 4, 3]),
        (StructureFilter(elements=("Pb", "I")), [2, 3]),
        (StructureFilter(elements=("C",)), [1]),
        (StructureFilter(gap_eV=(2.4, 4.0)), [0, 2, 4]),
        (StructureFilter(gap_eV=(None, 2.5)), [2]),
        (StructureFilter(n_atoms=(3, None)), [1, 2, 4]),
        (StructureFilter(elements=("Pb",), gap_eV=(2.5, None), n_atoms=(None, 9)), [4]),
    ],
)
def test_rows_meet_all_conditions_and_refused_ones_are_last(
    table: Table, conditions: StructureFilter, rows: list[int]
) -> None:
    assert table.rows(Filter(conditions=conditions)).tolist() == rows


def test_elements_of_a_table_are_in_the_order_of_atomic_numbers(table: Table) -> None:
    assert table.elements() == ["H", "C", "O", "Ca", "Br", "I", "Cs", "Pb"]
    assert elements_of_formula("CaO") == {"Ca", "O"}


def test_figure_of_many_predictions_has_some_of_them_at_their_ranks() -> None:
    n = 3 * MAX_INTERVALS
    mean = np.random.default_rng(0).permutation(n) / n
    mean[0] = np.nan
    unusual = np.zeros(n, dtype=bool)
    ids = [str(k) for k in range(n)]
    fig = intervals(mean, mean - 0.1, mean + 0.1, ids=ids, unusual=unusual)
    ranks = np.asarray(fig.data[0].x)
    assert ranks.size == MAX_INTERVALS
    assert (ranks[0], ranks[-1]) == (1, n - 1)
    assert np.asarray(fig.data[0].y) == pytest.approx(np.sort(mean[1:])[ranks - 1])
    assert "5,000 of 15,000 are drawn" in interval_caption(n)
    assert "drawn" not in interval_caption(MAX_INTERVALS)
