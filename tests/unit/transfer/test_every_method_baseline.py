"""Tests of every transfer method with a baseline, a value in eV after the features."""

import numpy as np
import pytest

from bandgap.foundation.errors import Cancelled, InputError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.posterior import BaselinePosterior
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared.method import Fitting
from tests.storing import read_again
from tests.unit.transfer import test_every_method
from tests.unit.transfer.method_settings import BRIEF, each_of
from tests.unit.transfer.test_every_method import P, rows_of, truth

WITHOUT_LEVELS = {name: method for name, method in METHODS.items() if not method.levels}
every_other_method = pytest.mark.parametrize("method", WITHOUT_LEVELS.values(), ids=WITHOUT_LEVELS)
source = test_every_method.source


def rows_with_baseline(n, *, seed, noise=0.2):
    """Rows with a baseline; gaps depend on it and on what the source predicts."""
    x, _ = rows_of(n, seed=seed)
    rng = np.random.default_rng([seed, 1])
    g = (truth(x) + 0.8 * rng.normal(size=n)).astype(np.float32)
    return np.column_stack([x, g]), 1.0 + 0.7 * g + 0.4 * truth(x) + noise * rng.normal(size=n)


def fit(method, source, data, *, settings=BRIEF, seed=0, **more):
    config = method.configure(settings.get(method.name, {}))
    return method.fit_features(source, data, config, Fitting(seed, device="cpu", **more))


@every_other_method
def test_gaps_that_are_a_line_of_the_baseline_are_found_exactly(method, source):
    x, _ = rows_with_baseline(40, seed=1)
    new, _ = rows_with_baseline(10, seed=2)
    posterior = fit(method, source, TargetData(x, 2.0 + 0.8 * x[:, P].astype(float)))
    np.testing.assert_allclose(
        posterior.mean_draws_eV(new).mean((0, 1)), 2.0 + 0.8 * new[:, P], atol=2e-5
    )
    assert posterior.diagnostics.figures["baseline_slope"] == pytest.approx(0.8, abs=1e-5)


@every_other_method
def test_baseline_is_a_line_plus_the_fit_of_its_residuals(method, source):
    """The method gets the residuals, and is restored from its arrays with the line."""
    x, y = rows_with_baseline(40, seed=1)
    new, _ = rows_with_baseline(10, seed=2)
    posterior = fit(method, source, TargetData(x, y))
    line = posterior.baseline
    distances = x[:, P].astype(float) - line.centre_eV
    plain = fit(method, source, TargetData(x[:, :P], y - line.slope * distances))
    assert not isinstance(plain, BaselinePosterior)
    assert distances.mean() == pytest.approx(0.0, abs=1e-6) and 0.3 < line.slope < 1.2
    expected = plain.mean_draws_eV(new[:, :P]).mean((0, 1)) + line.slope * (
        new[:, P].astype(float) - line.centre_eV
    )
    np.testing.assert_allclose(posterior.mean_draws_eV(new).mean((0, 1)), expected, atol=1e-9)
    again = read_again(posterior)
    np.testing.assert_allclose(
        again.mean_draws_eV(new), posterior.mean_draws_eV(new), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("n", [20, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    ["last_layer_ridge", "last_layer_pcp", pytest.param("nptl_head", marks=pytest.mark.slow)],
)
def test_intervals_about_a_baseline_cover(name, n, source):
    """Thirty training sets of n rows, 50 new rows each; gaps depend on the hidden features."""
    inside = []
    for seed in range(30):
        (x, y), (new, gaps) = (
            rows_with_baseline(n, seed=100 + seed),
            rows_with_baseline(50, seed=200 + seed),
        )
        settings = {
            name: {"samples": 40, "choice_samples": 4}
            if name == "nptl_head"
            else {"chains": 2, "draws": 50}
        }
        draws = fit(
            METHODS[name], source, TargetData(x, y), settings=settings, seed=seed
        ).predictive_draws(new)
        low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.05, 0.95])
        inside.append(np.mean((low < gaps) & (gaps < high)))
    assert 0.85 < np.mean(inside) < 0.95


def test_methods_that_learn_from_the_descriptor_are_given_the_baseline_among_it(source):
    x, y = rows_with_baseline(40, seed=1)
    assert set(METHODS) - set(WITHOUT_LEVELS) == {
        "feature_gp",
        "kernel_ridge",
        "gaussian_process",
        "parts_gp",
        "stacking",
        "random_forest",
        "gradient_boosting",
        "fresh_networks",
    }
    for name in set(METHODS) - set(WITHOUT_LEVELS):
        posterior = fit(METHODS[name], source, TargetData(x, y))
        assert not isinstance(posterior, BaselinePosterior)
        moved = x + np.eye(P + 1, dtype=np.float32)[P]
        assert not np.allclose(posterior.mean_draws_eV(x), posterior.mean_draws_eV(moved))


@each_of(
    {
        name: method
        for name, method in WITHOUT_LEVELS.items()
        if method.cost.coordinates or name in ("btl_pcp_sg", "ulisse_gp", "vecchia_gp")
    },
    in_default_run=["btl_pcp_pe", "vecchia_gp"],
)
def test_fit_with_a_baseline_resumes_to_the_same_posterior(method, source, tmp_path):
    x, y = rows_with_baseline(40, seed=1)
    data = TargetData(x, y)
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", 5)
    uninterrupted = fit(method, source, data)

    def cancel(update):
        if update.done and update.done >= 15:
            raise Cancelled("cancelled by the test")

    with pytest.raises(Cancelled):
        fit(method, source, data, progress=cancel, checkpoint=checkpoint)
    assert list(tmp_path.iterdir())
    resumed = fit(method, source, data, checkpoint=checkpoint)
    np.testing.assert_array_equal(resumed.mean_draws_eV(x), uninterrupted.mean_draws_eV(x))


def test_gaps_that_are_the_baseline_itself_are_refused(source):
    x, _ = rows_with_baseline(40, seed=1)
    x[:, P] = np.arange(40) / 8.0
    with pytest.raises(
        InputError,
        match="The gaps are 1 times the baseline and a constant: nothing is left to learn",
    ):
        fit(METHODS["target_only"], source, TargetData(x, x[:, P].astype(float)))
