"""Trees as flat arrays predict what scikit-learn predicts, also at thresholds."""

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from bandgap.posterior import fold_models
from bandgap.transfer.shared.trees import (
    HistogramTrees,
    Nodes,
    TreeSum,
    flat_trees,
    grown_on_histograms,
)

COLUMNS = np.array([1, 3, 4])  # of six features


def rows(n, *, seed):
    """Gaps of about 3 eV.

    The first feature is a small whole number, so that thresholds are halfway between numbers.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    x[:, 1] = rng.integers(0, 5, n)
    return x, 3.0 + x[:, 1] * x[:, 3] + 0.1 * rng.normal(size=n)


def forests():
    x, y = rows(80, seed=0)
    models = [RandomForestRegressor(7, random_state=seed).fit(x[:, COLUMNS], y) for seed in (0, 1)]
    return models, [TreeSum(m.estimators_, 1 / 7, 0.0) for m in models]


def boosted():
    x, y = rows(80, seed=0)
    models = [
        GradientBoostingRegressor(n_estimators=50, subsample=0.5, random_state=seed).fit(
            x[:, COLUMNS], y
        )
        for seed in (0, 1)
    ]
    return models, [TreeSum(m.estimators_[:, 0], 0.1, m.init_.constant_.item()) for m in models]


def boosted_on_histograms():
    x, y = rows(300, seed=0)
    x, config = x[:, COLUMNS], HistogramTrees(trees=20)
    models = [
        HistGradientBoostingRegressor(
            max_iter=20,
            learning_rate=config.learning_rate,
            max_features=config.feature_share,
            l2_regularization=1.0,
            random_state=seed,
        ).fit(x, y)
        for seed in (0, 1)
    ]
    return models, [grown_on_histograms(config)(x, y, seed) for seed in (0, 1)]


every_kind = pytest.mark.parametrize("make", [forests, boosted, boosted_on_histograms])


@every_kind
def test_prediction_is_scikit_learns(make):
    models, sums = make()
    x, _ = rows(500, seed=1)
    flat = flat_trees(sums, columns=COLUMNS, n_features=6)
    expected = [model.predict(x[:, COLUMNS]) for model in models]
    # Leaves are kept as float32.
    np.testing.assert_allclose(flat.predict_eV(x), expected, rtol=0, atol=1e-6)


@every_kind
def test_row_at_a_threshold_goes_where_scikit_learn_sends_it(make):
    """Every threshold of the first trees as float32, and its neighbours on both sides."""
    models, sums = make()
    tree = Nodes.of(sums[0].trees[0])
    inner = np.flatnonzero(tree.left_child >= 0)
    flat = flat_trees(sums, columns=COLUMNS, n_features=6)
    base, _ = rows(len(inner), seed=2)
    for towards in (None, -np.inf, np.inf):
        x = base.copy()
        at = tree.threshold[inner].astype(np.float32)
        at = at if towards is None else np.nextafter(at, np.float32(towards))
        x[np.arange(len(inner)), COLUMNS[tree.feature[inner]]] = at
        expected = [model.predict(x[:, COLUMNS]) for model in models]
        np.testing.assert_allclose(flat.predict_eV(x), expected, rtol=0, atol=1e-6)


def test_blocks_of_structures_make_no_difference(monkeypatch):
    _, sums = forests()
    flat, (x, _) = flat_trees(sums, columns=COLUMNS, n_features=6), rows(50, seed=1)
    all_rows = flat.predict_eV(x)
    monkeypatch.setattr(fold_models, "ROWS_PER_BLOCK", 7)
    assert (flat.predict_eV(x) == all_rows).all()
