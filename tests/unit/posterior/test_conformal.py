"""Cross-conformal predictions: the paper's formula, coverage by simulation, and what the draws of
the mean say.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from bandgap.posterior.conformal import MOST_ERRORS
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.transfer import TargetData
from bandgap.transfer.kernel_ridge import KernelRidgeConfig, fit
from bandgap.transfer.shared.method import Fitting

ONE_CHOICE = KernelRidgeConfig(lengths=(2.0,), penalties=(0.1,))
LEVELS = np.array([0.5, 0.8, 0.95])
REPETITIONS = 200


def data_of(n, *, seed):
    """Rows of three features, and gaps with noise of heavier tails than the normal's."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    return x, 3.0 + np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.4 * rng.standard_t(5, n)


@pytest.fixture(scope="module")
def posterior():
    return fit(None, TargetData(*data_of(60, seed=0)), ONE_CHOICE, Fitting(0))


@dataclasses.dataclass(frozen=True, eq=False)
class Repeated:
    """What 200 independent training sets of 60 rows led to."""

    covered: np.ndarray  # share of 20 new gaps inside, (repetition, level)
    points: np.ndarray  # mean at 15 fixed structures, (repetition, structure)
    variances: np.ndarray  # of the draws of the mean there, (repetition, structure)


@pytest.fixture(scope="module")
def repeated():
    fixed, _ = data_of(15, seed=9)
    covered = []
    points = []
    variances = []
    for i in range(REPETITIONS):
        posterior = fit(None, TargetData(*data_of(60, seed=[1, i])), ONE_CHOICE, Fitting(i))
        x, y = data_of(20, seed=[2, i])
        draws = posterior.predictive_draws(x)
        u = ndtr((y - draws.centres_eV) / draws.sds_eV[:, None]).mean(axis=0)
        covered.append([np.mean(np.abs(2.0 * u - 1.0) < level) for level in LEVELS])
        means = posterior.mean_draws_eV(fixed)[0]
        points.append(means.mean(axis=0))
        variances.append(means.var(axis=0))
    return Repeated(*map(np.array, (covered, points, variances)))


def test_intervals_have_the_stated_coverage(repeated):
    """4 Monte-Carlo standard errors below the level, and 2 % more above it: each judge trains on a
    tenth fewer rows.
    """
    error = repeated.covered.std(axis=0) / np.sqrt(REPETITIONS)
    coverage = repeated.covered.mean(axis=0)
    assert (coverage > LEVELS - 4 * error).all()
    assert (coverage < LEVELS + 4 * error + 0.02).all()


def test_draws_of_the_mean_have_the_sampling_variance(repeated):
    """The jackknife's variance is not below the sampling variance (Efron and Stein, 1981), and here
    not far above it.

    The variance of 200 normal values has a relative standard error of 0.1; averaging 15 structures
    narrows it.
    """
    ratio = repeated.variances.mean() / repeated.points.var(axis=0, ddof=1).mean()
    assert 0.9 < ratio < 1.6


def paper_interval(posterior, x, alpha):
    """CV+ as written down by Barber et al. (2021), section 1.3."""
    size = np.abs(posterior.errors_eV)
    n = posterior.errors_eV.size
    middle = posterior.models.predict_eV(x)[posterior.fold]
    lower = np.sort(middle - size[:, None], axis=0)[int(np.floor(alpha * (n + 1))) - 1]
    upper = np.sort(middle + size[:, None], axis=0)[int(np.ceil((1.0 - alpha) * (n + 1))) - 1]
    return lower, upper


def mixture_interval(posterior, x, alpha):
    draws = posterior.predictive_draws(x)
    return mixture_quantiles(draws.centres_eV, draws.sds_eV, [alpha / 2.0, 1.0 - alpha / 2.0])


# alpha (n + 1), halfway between two points of the distribution.
@pytest.mark.parametrize("rank", [1.5, 2.5, 6.5, 12.5])
def test_interval_without_smoothing_is_that_of_the_paper(posterior, rank):
    sharp = dataclasses.replace(posterior, smoothing=1e-5)
    x, _ = data_of(40, seed=3)
    alpha = rank / (posterior.errors_eV.size + 1)
    np.testing.assert_allclose(
        mixture_interval(sharp, x, alpha), paper_interval(posterior, x, alpha), atol=1e-3
    )


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_smoothing_moves_an_end_by_a_fraction_of_the_width(posterior, level):
    x, _ = data_of(40, seed=3)
    lower, upper = mixture_interval(posterior, x, 1.0 - level)
    expected = paper_interval(posterior, x, 1.0 - level)
    width = np.mean(expected[1] - expected[0])
    assert np.abs(lower - expected[0]).max() < 0.1 * width
    assert np.abs(upper - expected[1]).max() < 0.1 * width


def test_level_that_the_formula_leaves_infinite_ends_near_the_largest_error(posterior):
    """60 rows give no 99 % interval: 1 / 0.01 - 1 = 99 are needed."""
    x, _ = data_of(40, seed=3)
    lower, upper = mixture_interval(dataclasses.replace(posterior, smoothing=1e-5), x, 0.01)
    assert np.all(upper - lower > 1.8 * np.abs(posterior.errors_eV).max())
    assert np.all(
        upper - lower
        < 2.2 * np.abs(posterior.errors_eV).max() + np.ptp(posterior.models.predict_eV(x), axis=0)
    )


def variance(draws):
    return draws.centres_eV.var(axis=0) + np.mean(draws.sds_eV**2)


def test_smoothing_keeps_the_variance(posterior):
    x, _ = data_of(10, seed=3)
    sharp = dataclasses.replace(posterior, smoothing=1e-9)
    # The outermost points at a structure are not exactly those of the largest error, by which the
    # widths are computed.
    np.testing.assert_allclose(
        variance(posterior.predictive_draws(x)), variance(sharp.predictive_draws(x)), rtol=2e-3
    )


def test_point_prediction_is_the_mean_of_the_fold_models(posterior):
    x, _ = data_of(10, seed=3)
    expected = posterior.models.predict_eV(x).mean(axis=0)
    draws = posterior.predictive_draws(x)
    np.testing.assert_allclose(draws.means_eV.mean((0, 1)), expected, atol=1e-12)
    assert draws.means_eV.shape == (1, 10, 10) == (posterior.n_chains, posterior.n_draws, 10)
    assert (posterior.mean_draws_eV(x) == draws.means_eV).all()


def test_mean_is_never_less_certain_than_the_typical_error(posterior):
    """Folds that say 0, 0, ..., 100 eV have a jackknife error of hundreds of eV."""
    wild = dataclasses.replace(posterior.models, intercepts=np.r_[np.zeros(9), 100.0])
    x, _ = data_of(10, seed=3)
    sds = dataclasses.replace(posterior, models=wild).mean_draws_eV(x)[0].std(axis=0)
    np.testing.assert_allclose(sds, posterior.rms_eV)


def test_many_errors_are_thinned_in_order_of_size(posterior):
    rng = np.random.default_rng(4)
    many = dataclasses.replace(
        posterior, fold=rng.integers(0, 10, 3000), errors_eV=rng.standard_t(5, 3000)
    )
    x, _ = data_of(5, seed=3)
    draws = many.predictive_draws(x)
    assert draws.centres_eV.shape == (2 * MOST_ERRORS, 5)
    alpha = 0.05
    expected = paper_interval(many, x, alpha)
    np.testing.assert_allclose(
        mixture_interval(many, x, alpha), expected, atol=0.05 * np.ptp(expected, axis=0).mean()
    )


def test_errors_of_zero_leave_a_distribution(posterior):
    exact = dataclasses.replace(posterior, errors_eV=np.zeros(60))
    draws = exact.predictive_draws(data_of(5, seed=3)[0])
    assert (draws.sds_eV > 0).all() and np.isfinite(draws.means_eV).all()


def test_left_out_density_equals_the_formula_for_the_other_rows(posterior):
    errors = posterior.errors_eV
    h = posterior.smoothing
    for i in (0, 17):
        other_errors = np.sort(np.abs(np.delete(errors, i)))
        other_errors = np.append(other_errors, other_errors[-1])
        sds = h * np.sqrt(other_errors**2 + np.mean(other_errors**2) / 4)
        centres = np.sqrt(1 - 1.25 * h**2) * other_errors
        expected = np.mean([stats.norm.pdf(errors[i], sign * centres, sds) for sign in (-1, 1)])
        assert np.abs(errors[i]) < other_errors[-1]
        log_density = posterior.left_out_log_densities(np.array([1.0]))[i, 0]
        assert log_density == pytest.approx(np.log(expected), rel=1e-9)


def test_left_out_density_of_many_rows_uses_thinned_errors():
    large = fit(None, TargetData(*data_of(600, seed=3)), ONE_CHOICE, Fitting(0))
    log_densities = large.left_out_log_densities(np.array([1.0]))[:, 0]
    errors = np.abs(large.errors_eV)
    expected = [
        np.mean(
            [
                stats.norm.pdf(
                    large.errors_eV[i],
                    s * errors,
                    0.2 * np.sqrt(errors**2 + np.mean(errors**2) / 4),
                )
                for s in (-1, 1)
            ]
        )
        for i in range(0, 600, 50)
    ]
    np.testing.assert_allclose(log_densities[::50], np.log(expected), atol=0.15)
