"""Steps of a sweep against the joint density, and whole sweeps by Geweke's (2004) test.

Log joint of (Z, delta, s2, lambda, tau), with G, g and Z'PZ of the n x n matrices: the likelihood
of the contrasts is s2^(-n/2) exp(-(Z'PZ - 2 g'delta + delta'G delta) / (2 s2)).
"""

import numpy as np
import pytest
from scipy import stats

from bandgap.inference.last_layer.coefficient_draws import form_of
from bandgap.inference.last_layer.coefficient_updates import HalvesUpdate, JointUpdate
from bandgap.inference.last_layer.horseshoe_sweep import (
    CENTRED_INFORMATION,
    HorseshoeState,
    choose_centred,
    draw_scales,
    line_of,
    log_density_along_line,
    log_density_of_scale,
    move_along_line,
    slice_step,
    sweep,
)
from bandgap.inference.last_layer.noise_variance import NoisePrior, Response, draw_noise_variance
from bandgap.inference.last_layer.reduced_regression import reduce_regression
from benchmarks.plain_gibbs import GibbsState, gibbs_sweep
from tests.unit.inference.last_layer.regressions import explicit, make_regression, rank

FALSE_ALARM = 1e-4  # of each test of a distribution; the seeds are fixed
SIGMAS = 4.5  # of the largest of 20 comparisons: a false alarm in 7,000 runs
PRIOR = NoisePrior(3.0, 2.0)
STATES = {
    "middle": HorseshoeState(np.array([0.5, -0.02, 1.3]), 0.6, -0.5, np.array([1.0, 0.1, 8.0])),
    "sparse": HorseshoeState(
        np.array([0.001, 2.0, -0.004]), 0.2, -4.0, np.array([0.5, 900.0, 1.5])
    ),
    "wide": HorseshoeState(np.array([3.0, -2.0, 0.7]), 1.5, 1.5, np.array([3.0, 0.4, 0.05])),
}
every_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES)
X, Z, S1 = make_regression(12, 3)


def log_joint(delta, sigma2, log_tau, local, *, z=Z):
    """Of delta, sigma2, log tau and log lambda, without constants."""
    gram, moment, square, _ = explicit(X, z, S1)
    misfit = square - 2 * moment @ delta + delta @ gram @ delta
    variances = sigma2 * np.exp(2 * log_tau) * local
    half_cauchy = 0.5 * np.log(local) - np.log1p(local)
    return (
        -0.5 * (len(z) - 1) * np.log(sigma2)
        - 0.5 * misfit / sigma2
        - 0.5 * (np.log(variances) + delta**2 / variances).sum()
        + half_cauchy.sum()
        + log_tau
        - np.log1p(np.exp(2 * log_tau))
        - (PRIOR.shape + 1) * np.log(sigma2)
        - PRIOR.scale / sigma2
    )


@pytest.fixture(scope="module")
def problem():
    return reduce_regression(X, Z, source_covariance=S1)


def ranks_are_uniform(values, grid, log_density):
    return stats.kstest(rank(values, grid, np.array(log_density)), "uniform").pvalue > FALSE_ALARM


@every_state
def test_noise_variance_follows_the_joint_density_with_delta_integrated_out(problem, state):
    form = form_of(problem)
    rng = np.random.default_rng(1)
    explained = form.factor(state.variances)
    response = Response(problem.square, problem.n, PRIOR)
    draws = np.log([draw_noise_variance(explained, response, rng) for _ in range(3000)])
    gram, moment, _, _ = explicit(X, Z, S1)
    grid = np.linspace(-6, 6, 3001)
    log_density = []
    for s2 in np.exp(grid):  # the integral over delta adds |2 pi s2 A^-1|^(1/2) at its mean
        mean = np.linalg.solve(gram + np.diag(1 / state.variances), moment)
        log_density.append(
            log_joint(mean, s2, state.log_tau, state.local) + 1.5 * np.log(s2) + np.log(s2)
        )
    assert ranks_are_uniform(draws, grid, log_density)


@every_state
def test_tau_follows_the_joint_density_with_the_local_scales_integrated_out(state):
    """The integral over log lambda by the trapezoid rule, on a grid of log tau."""
    rng = np.random.default_rng(2)
    log_taus = []
    at = state
    for _ in range(2000):
        at = draw_scales(at, rng)
        log_taus.append(at.log_tau)
    grid = np.linspace(-14, 10, 601)
    t = np.linspace(-30, 30, 601)
    log_density = np.log(1 / np.cosh(grid))
    for d in state.delta:
        sd = np.sqrt(state.sigma2) * np.exp(grid[:, None] + t)
        log_density += np.log((stats.norm.pdf(d, 0, sd) / np.cosh(t)).sum(axis=1))
    # Successive slices of this one-dimensional law are nearly independent.
    thinned = np.array(log_taus)[::4]
    assert ranks_are_uniform(thinned, grid, log_density)


@every_state
def test_truncated_tau_follows_the_part_of_the_density_in_its_range(state):
    """Ranks under the density on a grid of the range alone."""
    rng = np.random.default_rng(2)
    log_taus = []
    at = state
    at = HorseshoeState(state.delta, state.sigma2, -0.3, state.local)
    for _ in range(4000):
        at = draw_scales(at, rng, log_range=(-1.0, 0.0))
        log_taus.append(at.log_tau)
    grid = np.linspace(-1.0, 0.0, 401)
    t = np.linspace(-30, 30, 601)
    log_density = np.log(1 / np.cosh(grid))
    for d in state.delta:
        sd = np.sqrt(state.sigma2) * np.exp(grid[:, None] + t)
        log_density += np.log((stats.norm.pdf(d, 0, sd) / np.cosh(t)).sum(axis=1))
    assert ranks_are_uniform(np.array(log_taus)[::4], grid, log_density)


def test_a_state_at_the_end_of_its_range_stays_inside(problem):
    """A slice of length 0 by rounding does not leave the range."""
    rng = np.random.default_rng(3)
    log_range = (-0.7, -0.7)
    state = STATES["middle"]
    at = HorseshoeState(state.delta, state.sigma2, -0.7, state.local)
    line = line_of(form_of(problem), np.array([True, False, True]))
    for _ in range(50):
        fitted = at.delta @ problem.gram @ at.delta
        at = move_along_line(at, line, problem.moment, fitted=fitted, rng=rng, log_range=log_range)
        at = draw_scales(at, rng, log_range=log_range)
        assert at.log_tau == -0.7


@every_state
def test_local_scales_follow_the_joint_density_given_tau(state):
    rng = np.random.default_rng(3)
    draws = [draw_scales(state, rng) for _ in range(300)]
    t = np.linspace(-40, 40, 4001)
    for j in range(3):
        # tau differs between draws, so ranks are taken given each draw's own tau
        ranks = []
        for draw in draws:
            sd = np.sqrt(state.sigma2) * np.exp(draw.log_tau + t)
            log_density = stats.norm.logpdf(state.delta[j], 0, sd) - np.logaddexp(t, -t)
            ranks.append(rank(0.5 * np.log(draw.local[j]), t, log_density))
        assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM


@every_state
@pytest.mark.parametrize("centred", [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)])
def test_line_follows_the_joint_density_along_it(problem, state, centred):
    """The Jacobian is tau for each coefficient that is not centred.

    The coordinates are log tau, delta / tau or delta, and lambda or tau lambda.
    """
    c = np.array(centred, dtype=bool)
    line = line_of(form_of(problem), c)
    rng = np.random.default_rng(4)
    log_taus = []
    at = state
    for _ in range(2000):
        at = move_along_line(
            at, line, problem.moment, fitted=at.delta @ problem.gram @ at.delta, rng=rng
        )
        log_taus.append(at.log_tau)
    grid = np.linspace(-12, 9, 801)
    log_density = []
    for t in grid:
        k = np.exp(t - state.log_tau)
        delta = np.where(c, state.delta, k * state.delta)
        local = np.where(c, state.local / k**2, state.local)
        log_density.append(log_joint(delta, state.sigma2, t, local) + (~c).sum() * t)
    assert ranks_are_uniform(np.array(log_taus)[::4], grid, log_density)


@every_state
@pytest.mark.parametrize("centred", [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)])
def test_log_density_along_the_line_is_that_of_the_joint_density(problem, state, centred):
    """The Jacobian is tau for each coefficient that is not centred."""
    is_centred = np.array(centred, dtype=bool)
    line = line_of(form_of(problem), is_centred)
    fitted = state.delta @ problem.gram @ state.delta
    shifts = np.array([-1.3, -0.2, 0.0, 0.4, 1.1])
    values = log_density_along_line(state, line, problem.moment, fitted=fitted)(shifts)
    expected = []
    for shift in shifts:
        k = np.exp(shift)
        delta = np.where(is_centred, state.delta, k * state.delta)
        local = np.where(is_centred, state.local / k**2, state.local)
        joint = log_joint(delta, state.sigma2, state.log_tau + shift, local)
        expected.append(joint + (~is_centred).sum() * shift)
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=0, atol=1e-8)


@every_state
def test_log_density_of_the_scale_is_the_joint_density_integrated_over_the_local_scales(state):
    """The integral over log lambda is a sum by the trapezoid rule."""
    shifts = np.array([-1.3, -0.2, 0.0, 0.4, 1.1])
    values = log_density_of_scale(state)(shifts)
    t = np.linspace(-60, 60, 24_001)
    expected = np.log(1 / np.cosh(state.log_tau + shifts))
    for coefficient in state.delta:
        sd = np.sqrt(state.sigma2) * np.exp(state.log_tau + shifts[:, None] + t)
        expected += np.log((stats.norm.pdf(coefficient, 0, sd) / np.cosh(t)).sum(axis=1))
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=0, atol=1e-6)


def test_line_keeps_what_is_centred_and_scales_the_rest(problem):
    state = STATES["middle"]
    c = np.array([True, False, True])
    line = line_of(form_of(problem), c)
    fitted = state.delta @ problem.gram @ state.delta
    moved = move_along_line(
        state, line, problem.moment, fitted=fitted, rng=np.random.default_rng(5)
    )
    k = np.exp(moved.log_tau - state.log_tau)
    assert k != 1
    np.testing.assert_allclose(moved.delta, np.where(c, state.delta, k * state.delta))
    np.testing.assert_allclose(moved.variances[c], state.variances[c])
    np.testing.assert_allclose(moved.local[~c], state.local[~c])
    assert moved.sigma2 == state.sigma2


@pytest.mark.parametrize("width", [0.3, 3.0, 30.0])
def test_slices_sample_a_normal_law_whatever_their_width(width):
    rng = np.random.default_rng(6)
    at = 0.0
    positions = []
    for _ in range(20_000):
        at += slice_step(lambda step, at=at: -0.5 * (at + step) ** 2, width=width, rng=rng)
        positions.append(at)
    every = max(1, round(40 / width**2)) if width < 1 else 5
    assert stats.kstest(positions[::every], "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("width", [0.3, 3.0, 30.0])
def test_slice_is_the_first_point_of_the_bracket_above_an_exponential_level(width):
    """A plain slice sampler with the same random numbers gives the same points."""
    rng = np.random.default_rng(13)
    reference = np.random.default_rng(13)

    def log_density(x):
        return -0.5 * (x + 1.2) ** 2

    for _ in range(300):
        point = slice_step(log_density, width=width, rng=rng)
        high = width * reference.random()
        low = high - width
        candidates = low + width * reference.random(4)
        level = log_density(0.0) - reference.standard_exponential()
        expected = None
        while expected is None:
            for candidate in candidates:
                if low <= candidate <= high:
                    if log_density(candidate) >= level:
                        expected = candidate
                        break
                    low, high = (candidate, high) if candidate < 0 else (low, candidate)
            else:
                candidates = low + (high - low) * reference.random(4)
        assert point == pytest.approx(expected, abs=1e-12)


def test_centred_are_the_active_coefficients_with_the_least_information():
    problem = reduce_regression(X, Z)
    state = HorseshoeState(np.array([1.0, 0.05, -0.7]), 0.3, -2.0, np.ones(3))
    centred = choose_centred(state, form_of(problem), np.array([0.9, 0.1, 0.5]))
    information = []
    for uncentred in ([0, 1, 2], [1, 2], [1], []):
        delta = np.zeros(3)
        delta[uncentred] = state.delta[uncentred]
        information.append(delta @ problem.gram @ delta / state.sigma2)
    best = int(np.argmin(np.array(information) + CENTRED_INFORMATION * np.arange(4)))
    assert best == 2 and centred.tolist() == [True, False, True]


def simulate_prior(rng, p, *, log_range=None):
    sigma2 = PRIOR.scale / rng.standard_gamma(PRIOR.shape)
    log_tau = np.log(abs(rng.standard_cauchy()))
    local = rng.standard_cauchy(p) ** 2
    while log_range is not None and not log_range[0] <= log_tau <= log_range[1]:
        log_tau = np.log(abs(rng.standard_cauchy()))
    delta = np.sqrt(sigma2 * local) * np.exp(log_tau) * rng.standard_normal(p)
    return HorseshoeState(delta, sigma2, log_tau, local)


def simulate_response(x, state, root, rng):
    """Responses given the state; the intercept, on which no contrast depends, is 0."""
    sigma = np.sqrt(state.sigma2)
    return x @ (
        state.delta + sigma * root @ rng.standard_normal(x.shape[1])
    ) + sigma * rng.standard_normal(len(x))


def summary(state):
    """Bounded or light-tailed functions of a state (coefficients have no mean under this prior)."""
    squashed = np.tanh(state.delta)
    log_local = 0.5 * np.log(state.local)
    return np.concatenate(
        [
            [np.log(state.sigma2), state.log_tau, np.tanh(state.log_tau) ** 2],
            squashed,
            squashed**2,
            np.tanh(log_local),
        ]
    )


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["row", "gram", "gram, no line", "truncated", "halves", "plain"])
def test_sweeps_leave_the_prior_as_it_is_when_responses_come_from_it(kind):
    """A draw from the prior, responses given it, two sweeps: again a draw from the prior.

    (After Geweke, 2004.) Replicates are independent, so that heavy tails of the scales cannot hide
    the slow mixing of a long chain.
    """
    n, p = (3, 7) if kind == "row" else (6, 3)
    x, _, s1 = make_regression(n, p, seed=8)
    root = np.linalg.cholesky(s1)
    rng = np.random.default_rng(9)
    centred = None if kind == "gram, no line" else np.arange(p) % 2 == 0
    log_range = (-np.log(p), 0.0) if kind == "truncated" else None
    gains = []
    for _ in range(1200):
        start = state = simulate_prior(rng, p, log_range=log_range)
        z = simulate_response(x, state, root, rng)
        problem = reduce_regression(x, z, source_covariance=s1)
        form = form_of(problem)
        response = Response(problem.square, problem.n, PRIOR)
        line = None if centred is None else line_of(form, centred)
        update = HalvesUpdate(problem) if kind == "halves" else JointUpdate(form)
        if kind == "plain":
            mixing = (1 + np.exp(-2 * state.log_tau)) / rng.standard_exponential()
            zeta = (1 + 1 / state.local) / rng.standard_exponential(p)
            plain = GibbsState(
                state.delta, state.sigma2, np.exp(2 * state.log_tau), state.local, mixing, zeta
            )
            for _ in range(2):
                plain = gibbs_sweep(plain, form, problem.moment, response, rng)
            state = HorseshoeState(plain.delta, plain.sigma2, 0.5 * np.log(plain.tau2), plain.local)
        else:
            for _ in range(2):
                state = sweep(
                    state,
                    update,
                    problem.moment,
                    response,
                    line=line,
                    rng=rng,
                    log_range=log_range,
                )
        gains.append(summary(state) - summary(start))
    gains = np.array(gains)
    assert (gains.std(0) > (0.05 if kind == "truncated" else 0.1)).all()
    assert (np.abs(gains.mean(0)) < SIGMAS * gains.std(0) / np.sqrt(len(gains))).all()
