"""Stacking: it weights the better method, reports weights, and refuses invalid settings."""

import numpy as np
import pytest

from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.stacking import fit
from tests.unit.transfer.method_settings import BRIEF

P = 5
CONFIG = get_method("stacking").configure(BRIEF["stacking"])


def stepped(n, *, seed):
    """Rows and gaps: steps along two features, which trees learn and smooth kernels do not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, P)).astype(np.float32)
    return x, 3.0 + 2.0 * (x[:, 0] > 0) - 1.5 * (x[:, 1] > 0.5) + 0.05 * rng.normal(size=n)


def smooth(n, *, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, P)).astype(np.float32)
    return x, 3.0 + np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.05 * rng.normal(size=n)


@pytest.fixture
def source(source_of):
    return source_of()


def test_weight_goes_to_the_method_that_fits_the_function(source):
    trees = {"trees": 150, "learning_rate": 0.1, "feature_share": 1.0, "folds": 5}
    config = get_method("stacking").configure(BRIEF["stacking"] | {"gradient_boosting": trees})
    figures = fit(source, TargetData(*stepped(150, seed=0)), config, Fitting(0)).diagnostics.figures
    assert figures["weight_gradient_boosting"] > 0.7
    figures = fit(source, TargetData(*smooth(150, seed=0)), config, Fitting(0)).diagnostics.figures
    assert figures["weight_parts_gp"] > 0.7


def test_figures_say_weights_spread_and_those_of_every_member(source, target):
    figures = fit(source, target, CONFIG, Fitting(0)).diagnostics.figures
    weights = [
        figures[f"weight_{name}"] for name in ("parts_gp", "kernel_ridge", "gradient_boosting")
    ]
    assert sum(weights) == pytest.approx(1.0) and min(weights) > 0
    assert 0.84 <= figures["spread"] <= 1.12
    assert {"k_hat_parts_gp", "cv_rmse_eV_kernel_ridge", "cv_rmse_eV_gradient_boosting"} <= set(
        figures
    )


def test_warnings_name_the_method_that_they_are_of(source, target):
    small_target = TargetData(target.features[:10], target.gaps_eV[:10])
    warnings = fit(source, small_target, CONFIG, Fitting(0)).diagnostics.warnings
    assert any(
        text.startswith("Kernel ridge, no transfer: 10 labelled structures are too few")
        for text in warnings
    )
