"""Folds, and that no row influences the model that predicts it, for kernels, trees and
networks."""

import numpy as np
import pytest

from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.cross_conformal import fold_of_rows
from bandgap.transfer.shared.method import Fitting

SETTINGS = {
    "kernel_ridge": {"folds": 4},
    "random_forest": {"folds": 4, "trees": 5},
    "gradient_boosting": {"folds": 4, "trees": 10},
    "fresh_networks": {
        "folds": 4,
        "hidden": [8],
        "training": {"warmup_steps": 5},
        "trees_share": 0.5,
        "trees": {"trees": 5},
    },
}
every_one = pytest.mark.parametrize("name", SETTINGS)


def fit(name, source, data, **more):
    method = get_method(name)
    return method.fit(source, data, method.configure(SETTINGS[name] | more), Fitting(0))


def test_folds_are_as_equal_as_can_be_and_depend_on_the_seed_alone():
    fold = fold_of_rows(23, folds=5, seed=3)
    assert sorted(np.bincount(fold)) == [4, 4, 5, 5, 5]
    assert (fold == fold_of_rows(23, folds=5, seed=3)).all()
    assert (fold != fold_of_rows(23, folds=5, seed=4)).any()


def test_no_fold_divides_a_group():
    groups = np.repeat(np.arange(9), [1, 2, 3, 4, 1, 2, 3, 4, 3])
    fold = fold_of_rows(23, folds=4, seed=0, groups=groups)
    assert all(np.ptp(fold[groups == group]) == 0 for group in range(9))
    assert set(fold) == {0, 1, 2, 3}


def test_no_more_folds_than_rows():
    assert sorted(fold_of_rows(5, folds=10, seed=0)) == [0, 1, 2, 3, 4]


@every_one
def test_errors_are_those_of_the_models_that_had_not_seen_the_row(name, source_of, target):
    posterior = fit(name, source_of(), target)
    predicted = posterior.models.predict_eV(target.features)
    for i in range(40):
        assert posterior.errors_eV[i] == target.gaps_eV[i] - predicted[posterior.fold[i], i]
    assert posterior.diagnostics.figures["cv_rmse_eV"] == pytest.approx(
        np.sqrt(np.mean(posterior.errors_eV**2))
    )
    assert posterior.diagnostics.figures["folds"] == 4


@every_one
def test_gap_of_a_row_has_no_say_in_the_model_that_judges_it(name, source_of, target):
    other = target.gaps_eV.copy()
    other[7] += 5.0
    first, second = (
        fit(name, source_of(), TargetData(target.features, y)).models.predict_eV(target.features)
        for y in (target.gaps_eV, other)
    )
    fold_of_row = fold_of_rows(40, folds=4, seed=0)[7]
    assert (first[fold_of_row] == second[fold_of_row]).all()
    assert all((first[k] != second[k]).any() for k in range(4) if k != fold_of_row)


@pytest.mark.parametrize("name", [*SETTINGS, "gaussian_process", "target_only"])
def test_feature_that_never_varies_in_the_training_rows_changes_no_prediction(
    name, source_of, target
):
    x = target.features.copy()
    method = get_method(name)
    x[:, 2] = 0.0
    settings = SETTINGS | {
        "gaussian_process": {"restarts": 0},
        "target_only": {"training": {"max_epochs": 20}},
    }
    posterior = method.fit(
        source_of(), TargetData(x, target.gaps_eV), method.configure(settings[name]), Fitting(0)
    )
    new = x.copy()
    new[:, 2] = 50.0
    assert (posterior.mean_draws_eV(new) == posterior.mean_draws_eV(x)).all()
