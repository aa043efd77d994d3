"""Filters of the table of predictions: elements, ranges of the gap and of the size."""

import numpy as np
import pytest

from app.components.predict.prediction_table import Filter, Table, elements_of_formula
from bandgap.jobs.structure_filter import StructureFilter
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
