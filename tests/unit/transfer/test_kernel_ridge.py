"""Kernel ridge: scikit-learn's predictions, and leave-one-out errors against refits."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bandgap.networks.standardise import fit_standardiser
from bandgap.transfer.kernel_ridge import KernelRidgeConfig, best_ridge, fit
from bandgap.transfer.shared.method import Fitting


@pytest.fixture
def kernel():
    x = np.random.default_rng(0).normal(size=(25, 3))
    return np.exp(-cdist(x, x, "cityblock") / 3.0), np.sin(x[:, 0]) + 0.3 * x[:, 1]


def test_fold_models_predict_as_scikit_learns_kernel_ridge(source_of, target):
    from sklearn.kernel_ridge import KernelRidge

    posterior = fit(
        source_of(),
        target,
        KernelRidgeConfig(folds=4, lengths=(1.5,), penalties=(0.05,)),
        Fitting(0),
    )
    scaled = fit_standardiser(target.features, target.gaps_eV).features(target.features)
    new = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)
    scaled_new = fit_standardiser(target.features, target.gaps_eV).features(new)
    predicted = posterior.models.predict_eV(new)
    for k in range(4):
        used = posterior.fold != k
        y = target.gaps_eV[used]
        ridge = KernelRidge(alpha=0.05, kernel="laplacian", gamma=1.0 / posterior.models.lengths[k])
        expected = y.mean() + ridge.fit(scaled[used], y - y.mean()).predict(scaled_new)
        # Rows and features are kept as float32.
        np.testing.assert_allclose(predicted[k], expected, atol=1e-5)


def test_length_is_in_units_of_the_median_distance(source_of, target):
    posterior = fit(source_of(), target, KernelRidgeConfig(folds=2, lengths=(1.5,)), Fitting(0))
    distances = posterior.models.rows.own_distances("cityblock")[np.triu_indices(40, 1)]
    assert posterior.models.lengths == pytest.approx(np.full(2, 1.5 * np.median(distances)))


def test_leave_one_out_error_equals_that_of_refits(kernel):
    k, y = kernel
    squares = []
    for i in range(25):
        other_rows = np.arange(25) != i
        a = np.linalg.solve(k[np.ix_(other_rows, other_rows)] + 0.1 * np.eye(24), y[other_rows])
        squares.append((y[i] - k[i, other_rows] @ a) ** 2)
    assert best_ridge(k, y, penalties=(0.1,)).mean_square == pytest.approx(np.mean(squares))


def test_penalty_is_the_one_of_the_smallest_leave_one_out_error(kernel):
    k, y = kernel
    tried = (1e-4, 1e-2, 0.1, 10.0)
    errors = [best_ridge(k, y, penalties=(p,)).mean_square for p in tried]
    best = best_ridge(k, y, penalties=tried)
    assert best.penalty == tried[int(np.argmin(errors))] and best.mean_square == min(errors)
    np.testing.assert_allclose((k + best.penalty * np.eye(25)) @ best.coefficients, y, atol=1e-8)
