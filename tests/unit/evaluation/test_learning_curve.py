"""The power law of a learning curve, its uncertainty, its sentence and its file."""

import json

import numpy as np
import pytest

from bandgap.evaluation.learning_curve import (
    COLUMNS,
    check_numbers,
    fit_power_law,
    learning_curve_of,
    load_curve,
    save_curve,
)
from bandgap.foundation.errors import ArtifactError, InputError

SIZES = (50, 100, 150, 200)


def curve_of_law(a, b, c, *, n_test=400, n_seeds=3, seed=0, degrees=None):
    """Return the curve of normal errors whose RMSE at size n is a + b (n / 200)^-c.

    A structure's errors have a common part at all sizes, as in fits on nested sets. With `degrees`
    of freedom of Student's t distribution their tails are heavy.
    """
    rng = np.random.default_rng(seed)
    size = np.ones(n_test)
    if degrees is not None:
        size = np.sqrt((degrees - 2) / rng.chisquare(degrees, size=n_test))
    shared = rng.normal(size=n_test)
    noise = rng.normal(size=(n_seeds, len(SIZES), n_test))
    noise[:, -1] = noise[0, -1]
    sd = a + b * (np.array(SIZES) / 200) ** -c
    errors = size * sd[None, :, None] * (0.8 * shared + 0.6 * noise)
    return learning_curve_of(SIZES, errors)


@pytest.mark.parametrize(
    "law",
    [(0.1, 0.2, 0.5), (0.0, 0.3, 1.0), (0.25, 0.05, 1.5)],
    ids=["with a floor", "without a floor", "steep"],
)
def test_exact_power_law_is_found(law) -> None:
    x = np.array(SIZES) / 200
    fitted = fit_power_law(x, (law[0] + law[1] * x ** -law[2])[None])
    np.testing.assert_allclose(fitted[0], law, atol=1e-9)


def test_several_laws_are_fitted_as_single_ones() -> None:
    x = np.array(SIZES) / 200
    y = np.random.default_rng(1).uniform(0.2, 0.6, size=(20, 4))
    together = fit_power_law(x, y)
    single = np.concatenate([fit_power_law(x, row[None]) for row in y])
    np.testing.assert_array_equal(together, single)


def test_rising_errors_give_a_constant_and_no_negative_term() -> None:
    y = np.array([[0.2, 0.3, 0.4, 0.5]])
    a, b, _ = fit_power_law(np.array(SIZES) / 200, y)[0]
    assert b == 0.0
    assert a == pytest.approx((1 / y).sum() / (1 / y**2).sum())  # the least relative squares


def test_fit_is_the_best_of_a_fine_grid_of_laws() -> None:
    x = np.array(SIZES) / 200
    y = np.array([0.52, 0.43, 0.41, 0.37])
    a, b, c = fit_power_law(x, y[None])[0]
    best = (((a + b * x**-c) / y - 1) ** 2).sum()
    grid = np.linspace(0, 0.5, 101)
    for exponent in np.arange(0.05, 2.01, 0.05):
        values = grid[:, None, None] + grid[None, :, None] * x**-exponent
        assert (((values / y - 1) ** 2).sum(-1)).min() >= best - 1e-12


def test_bootstrap_range_contains_the_true_error_in_most_simulations() -> None:
    """The range is of 95 %; in 40 simulations fewer than 32 hits have a probability of 4e-4."""
    truth = 0.1 + 0.3 * 1.5**-0.7
    hits = 0
    for seed in range(40):
        _, lower, upper = curve_of_law(0.1, 0.3, 0.7, seed=seed).at(300)
        hits += bool(lower <= truth <= upper)
    assert hits >= 32


def test_sentence_states_forecast_present_error_and_gain_by_the_same_law() -> None:
    curve = curve_of_law(0.05, 0.4, 0.8)
    error, lower, upper = curve.at(350)
    now = curve.at(200)[0]
    share, least, most = curve.gain(150)
    assert curve.sentence(150) == (
        f"150 more labels: about {error:.2f} eV ({lower:.2f} to {upper:.2f}); with the 200 of now "
        f"the same curve is at {now:.2f} eV. That is {100 * least:.0f} to {100 * most:.0f} % less."
    )
    assert error == pytest.approx(now * (1 - share))
    assert 0.1 < least < most < 0.5


def test_table_has_fits_means_and_the_law_to_twice_the_labels() -> None:
    curve = curve_of_law(0.1, 0.3, 0.7)
    table = curve.table()
    assert tuple(table.columns) == COLUMNS
    fits = table[table["kind"] == "fit"]
    assert fits["n"].value_counts().to_dict() == {50: 3, 100: 3, 150: 3, 200: 1}
    mean = table[table["kind"] == "mean"]
    np.testing.assert_allclose(mean["rmse_eV"], curve.rmse_eV.mean(axis=0))
    assert ((mean["lower_eV"] < mean["rmse_eV"]) & (mean["rmse_eV"] < mean["upper_eV"])).all()
    law = table[table["kind"] == "power law"]
    assert (law["n"].min(), law["n"].max()) == (50, 400)


def test_stored_curve_is_the_same(tmp_path) -> None:
    curve = curve_of_law(0.1, 0.3, 0.7)
    save_curve(tmp_path / "curve.json", curve)
    stored = load_curve(tmp_path / "curve.json")
    assert stored is not None
    assert stored.to_values() == curve.to_values()
    assert stored.sentence() == curve.sentence()
    assert load_curve(tmp_path / "absent.json") is None


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"sizes": [1, 2]}, {"law": [0.1]}, {"laws": "x"}],
    ids=["schema", "sizes", "law", "text"],
)
def test_damaged_curve_is_named(change, tmp_path) -> None:
    path = tmp_path / "curve.json"
    save_curve(path, curve_of_law(0.1, 0.3, 0.7))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ArtifactError, match=r"curve\.json: not readable as a learning curve"):
        load_curve(path)


def test_too_few_labels_and_too_few_test_structures_are_refused_with_the_reason() -> None:
    check_numbers(40, 20, what="run")
    with pytest.raises(InputError, match="run learned from 39 labels.*at least 40"):
        check_numbers(39, 20, what="run")
    with pytest.raises(InputError, match="run was tested on 19 structures.*at least 20"):
        check_numbers(40, 19, what="run")
