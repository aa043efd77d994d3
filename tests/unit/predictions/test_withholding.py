"""The p-value of the domain in tables and stored files, and the intervals that it changes."""

import csv
import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from bandgap.evaluation.heldout import rows_of
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.extxyz import interval_numbers, predicted_blocks, with_interval
from bandgap.predictions.store import load_predictions, save_predictions
from bandgap.predictions.table import (
    COLUMNS,
    DOMAIN_P,
    Predictions,
    predictions_from_draws,
    read_predictions_csv,
)
from bandgap.predictions.withholding import IntervalChanges, widen_intervals, withhold_intervals
from tests.unit.conftest import make_records

NAN = np.nan
# columns: usual, unusual, an unseen element, refused
P = np.array([0.6, 0.02, NAN, NAN])


@pytest.fixture(scope="module")
def predictions() -> Predictions:
    rng = np.random.default_rng(0)
    return predictions_from_draws(
        rng.normal(3.0, 0.1, (40, 3)),
        np.full(40, 0.2),
        ids=["a", "b", "c", "d"],
        files=["x.cif"] * 4,
        formulas=["H2O", "H2O", "HBr", ""],
        domain=["ok", "ok", "Contains Br.", ""],
        status=["ok", "ok", "warning", "refused"],
        problem=["", "", "", "no atoms"],
        domain_p=P,
    )


def test_csv_has_the_p_value_in_the_last_column(predictions: Predictions) -> None:
    text = predictions.to_csv()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == (*COLUMNS, DOMAIN_P)
    assert [row["domain_p"] for row in rows] == ["0.6", "0.02", "", ""]
    frame = read_predictions_csv(text.encode())
    np.testing.assert_array_equal(frame[DOMAIN_P].to_numpy(), P)
    without = dataclasses.replace(predictions, domain_p=None)
    assert tuple(without.to_columns()) == COLUMNS


def test_stored_file_keeps_the_p_values(predictions: Predictions, tmp_path: Path) -> None:
    save_predictions(tmp_path / "q", predictions)
    np.testing.assert_array_equal(load_predictions(tmp_path / "q").domain_p, P)
    np.testing.assert_array_equal(rows_of(predictions, np.array([1, 0])).domain_p, P[[1, 0]])


def test_extended_xyz_has_no_number_where_a_structure_is_not_assessable(
    predictions: Predictions,
) -> None:
    numbers = interval_numbers(predictions, level=0.95, kind="prediction")
    assert [row.get("domain_p") for row in numbers] == [0.6, 0.02, None]


def test_withheld_rows_keep_the_mean_and_have_no_interval_and_say_why(
    predictions: Predictions,
) -> None:
    withheld = withhold_intervals(predictions, below_p=0.05)
    np.testing.assert_array_equal(withheld.mean_eV, predictions.mean_eV)
    scores = ConformalScores(tuple(map(str, range(30))), np.linspace(0.1, 4.0, 30))
    for kind in ("prediction", "credible", "conformal"):
        ends = dataclasses.replace(withheld, conformal=scores).interval(0.9, kind)
        assert np.isnan(ends).tolist() == [[False, True, True, True]] * 2
    assert withheld.status == ("ok", "warning", "warning", "refused")
    assert withheld.problem == (
        "",
        "Interval withheld: domain_p is below 0.05.",
        "Interval withheld: not assessable.",
        "no atoms",
    )
    rows = list(csv.DictReader(io.StringIO(withheld.to_csv())))
    assert [row["sd_eV"] != "" for row in rows] == [True, False, False, False]
    numbers = interval_numbers(withheld, level=0.95, kind="prediction")
    assert list(numbers[1]) == ["predicted_gap_eV", DOMAIN_P]
    assert withhold_intervals(predictions, below_p=0.0).interval(0.9)[0][1] > 0


def test_widened_rows_keep_the_mean_and_have_all_intervals_wider_and_say_why(
    predictions: Predictions,
) -> None:
    widened = widen_intervals(predictions, below_p=0.05, factor=3.0)
    np.testing.assert_array_equal(widened.mean_eV, predictions.mean_eV)
    scores = ConformalScores(tuple(map(str, range(30))), np.linspace(0.1, 4.0, 30))
    for kind in ("prediction", "credible", "conformal"):
        before, after = (
            np.diff(dataclasses.replace(table, conformal=scores).interval(0.9, kind), axis=0)[0]
            for table in (predictions, widened)
        )
        np.testing.assert_allclose(after[:3] / before[:3], [1.0, 3.0, 3.0], rtol=1e-9)
    np.testing.assert_allclose(
        widened.sd_new_eV[:3] / predictions.sd_new_eV[:3], [1.0, 3.0, 3.0], rtol=1e-12
    )
    np.testing.assert_array_equal(widened.quantiles_new[:, 0], predictions.quantiles_new[:, 0])
    assert widened.problem == (
        "",
        "Interval widened 3 times: domain_p is below 0.05.",
        "Interval widened 3 times: not assessable.",
        "no atoms",
    )
    assert widened.status == ("ok", "warning", "warning", "refused")
    rows = list(csv.DictReader(io.StringIO(widened.to_csv())))
    assert float(rows[1]["sd_eV"]) == pytest.approx(3 * predictions.sd_new_eV[1], abs=1e-6)
    numbers = interval_numbers(widened, level=0.95, kind="prediction")
    width = numbers[1]["upper_95_eV"] - numbers[1]["lower_95_eV"]
    assert width == pytest.approx(float(rows[1]["upper_eV"]) - float(rows[1]["lower_eV"]))


def test_widened_row_of_a_probable_metal_keeps_its_probability_of_zero(
    predictions: Predictions,
) -> None:
    quantiles = predictions.quantiles_new.copy()
    quantiles[:80] = np.where(np.isnan(quantiles[:80]), np.nan, 0.0)  # 40 % at zero
    metals = dataclasses.replace(
        predictions, quantiles_new=quantiles, p_metal=np.array([0.4, 0.4, 0.4, NAN])
    )
    widened = widen_intervals(metals, below_p=0.05, factor=4.0)
    for row in (0, 1, 2):
        assert np.all(widened.quantiles_new[:80, row] == 0.0)
        assert np.all(np.diff(widened.quantiles_new[:, row]) >= 0.0)
    before, after = (table.interval(0.95)[1] for table in (metals, widened))
    assert after[0] == before[0] and after[1] > before[1] + 0.5


def test_gaps_of_a_probable_metal_are_widened_about_their_mean_and_intervals_contain_the_former(
    predictions: Predictions,
) -> None:
    p_metal = np.array([0.2, 0.4, 0.93, 0.999])
    n = p_metal.size
    gaps_eV = np.full((2, n), 2.0)
    metals = predictions_from_draws(
        (1.0 - p_metal) * gaps_eV,
        np.full(2, 0.1),
        centres=gaps_eV,
        ids=["a", "b", "c", "d"],
        files=["x.cif"] * n,
        formulas=["H2O"] * n,
        domain=["ok"] * n,
        status=["ok"] * n,
        problem=[""] * n,
        p_metal=p_metal,
        domain_p=np.full(n, 0.01),
    )
    widened = widen_intervals(metals, below_p=0.05, factor=3.0)
    # half of the gaps above zero are below 2 eV, as before
    np.testing.assert_allclose(widened.quantiles_new[[119, 139], [0, 1]], 2.0, atol=0.02)
    for level in (0.3, 0.5, 0.95, 0.99):
        (lower, upper), (lower_after, upper_after) = (
            table.interval(level) for table in (metals, widened)
        )
        assert np.all(lower_after <= lower) and np.all(upper_after >= upper)
    assert widened.interval(0.95)[1][1] == pytest.approx(
        2.0 + 3.0 * (metals.interval(0.95)[1][1] - 2.0), abs=0.01
    )


def test_stored_extended_xyz_says_which_intervals_are_changed(
    predictions: Predictions, tmp_path: Path
) -> None:
    records = make_records(4, seed=1, prefix="new")
    path = tmp_path / "p.extxyz"
    blocks = list(predicted_blocks(predictions, records, level=0.95, kind="prediction"))
    path.write_text("".join(blocks))
    for changes in (IntervalChanges(withhold_below_p=0.05), IntervalChanges(widen_below_p=0.05)):
        changed = changes.apply(predictions)
        expected = "".join(predicted_blocks(changed, records, level=0.9, kind="prediction"))
        assert with_interval(path, changed, level=0.9, kind="prediction").decode() == expected
        assert 'warning="Interval wi' in expected


def test_withheld_rows_are_not_widened_as_well(predictions: Predictions) -> None:
    p = P.copy()
    p[0] = 0.2
    changes = IntervalChanges(withhold_below_p=0.05, widen_below_p=0.3, widen_factor=2.0)
    changed = changes.apply(dataclasses.replace(predictions, domain_p=p))
    assert changed.problem == (
        "Interval widened 2 times: domain_p is below 0.3.",
        "Interval withheld: domain_p is below 0.05.",
        "Interval withheld: not assessable.",
        "no atoms",
    )
    assert not IntervalChanges() and IntervalChanges().apply(predictions) is predictions
