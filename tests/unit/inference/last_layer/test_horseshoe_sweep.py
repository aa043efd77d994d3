"""Each step of a sweep against the joint density written down here, and whole sweeps by Geweke's (2004) test.

Log joint of (Z, delta, s2, lambda, tau), with G, g and Z'PZ of the n x n matrices: the likelihood of the contrasts is
s2^(-n/2) exp(-(Z'PZ - 2 g'delta + delta'G delta) / (2 s2)).
"""

import numpy as np
import pytest
from scipy import stats

from bandgap.inference.last_layer.coefficient_draws import form_of
from bandgap.inference.last_layer.coefficient_updates import HalvesUpdate, JointUpdate
from bandgap.inference.last_layer.horseshoe_sweep import (
    CENTRED_TELLS,
    HorseshoeState,
    choose_centred,
    draw_scales,
    line_of,
    move_along_line,
    slice_step,
    sweep,
)
from bandgap.inference.last_layer.noise_variance import NoisePrior, Response, draw_noise_variance
from bandgap.inference.last_layer.reduced_regression import reduce_regression
from benchmarks.plain_gibbs import GibbsState, gibbs_sweep
from tests.unit.inference.last_layer.regressions import explicit, made, rank

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
X, Z, S1 = made(12, 3)


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
    form, rng = form_of(problem), np.random.default_rng(1)
    explained = form.factor(state.variances)
    response = Response(problem.square, problem.n, PRIOR)
    draws = np.log([draw_noise_variance(explained, response, rng) for _ in range(3000)])
    gram, moment, _, _ = explicit(X, Z, S1)
    grid, log_density = np.linspace(-6, 6, 3001), []
    for s2 in np.exp(grid):  # the integral over delta adds |2 pi s2 A^-1|^(1/2) at its mean
        mean = np.linalg.solve(gram + np.diag(1 / state.variances), moment)
        log_density.append(
            log_joint(mean, s2, state.log_tau, state.local) + 1.5 * np.log(s2) + np.log(s2)
        )
    assert ranks_are_uniform(draws, grid, log_density)


@every_state
def test_tau_follows_the_joint_density_with_the_local_scales_integrated_out(state):
    """The integral over log lambda by the trapezoid rule, on a grid of log tau."""
    rng, found, at = np.random.default_rng(2), [], state
    for _ in range(2000):
        at = draw_scales(at, rng)
        found.append(at.log_tau)
    grid = np.linspace(-14, 10, 601)
    t = np.linspace(-30, 30, 601)
    log_density = np.log(1 / np.cosh(grid))
    for d in state.delta:
        sd = np.sqrt(state.sigma2) * np.exp(grid[:, None] + t)
        log_density += np.log((stats.norm.pdf(d, 0, sd) / np.cosh(t)).sum(axis=1))
    thinned = np.array(found)[
        ::4
    ]  # successive slices of this one-dimensional law hardly remember each other
    assert ranks_are_uniform(thinned, grid, log_density)


@every_state
def test_local_scales_follow_the_joint_density_given_tau(state):
    rng = np.random.default_rng(3)
    draws = [draw_scales(state, rng) for _ in range(300)]
    t = np.linspace(-40, 40, 4001)
    for j in range(3):
        # tau differs between draws, so ranks are taken given each draw's own tau
        found = []
        for draw in draws:
            sd = np.sqrt(state.sigma2) * np.exp(draw.log_tau + t)
            log_density = stats.norm.logpdf(state.delta[j], 0, sd) - np.logaddexp(t, -t)
            found.append(rank(0.5 * np.log(draw.local[j]), t, log_density))
        assert stats.kstest(found, "uniform").pvalue > FALSE_ALARM


@every_state
@pytest.mark.parametrize("centred", [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)])
def test_line_follows_the_joint_density_along_it(problem, state, centred):
    """In its coordinates (log tau, delta / tau or delta, lambda or tau lambda) the Jacobian is tau per free delta."""
    c = np.array(centred, dtype=bool)
    line, rng, found, at = line_of(form_of(problem), c), np.random.default_rng(4), [], state
    for _ in range(2000):
        at = move_along_line(
            at, line, problem.moment, fitted=at.delta @ problem.gram @ at.delta, rng=rng
        )
        found.append(at.log_tau)
    grid, log_density = np.linspace(-12, 9, 801), []
    for t in grid:
        k = np.exp(t - state.log_tau)
        delta, local = (
            np.where(c, state.delta, k * state.delta),
            np.where(c, state.local / k**2, state.local),
        )
        log_density.append(log_joint(delta, state.sigma2, t, local) + (~c).sum() * t)
    assert ranks_are_uniform(np.array(found)[::4], grid, log_density)


def test_line_moves_only_what_it_says(problem):
    state, c = STATES["middle"], np.array([True, False, True])
    line, fitted = line_of(form_of(problem), c), state.delta @ problem.gram @ state.delta
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
    rng, at, found = np.random.default_rng(6), 0.0, []
    for _ in range(20_000):
        at += slice_step(lambda step, at=at: -0.5 * (at + step) ** 2, width=width, rng=rng)
        found.append(at)
    every = max(1, round(40 / width**2)) if width < 1 else 5
    assert stats.kstest(found[::every], "norm").pvalue > FALSE_ALARM


def test_centred_are_the_active_coefficients_as_many_as_tell_least():
    problem = reduce_regression(X, Z)
    state = HorseshoeState(np.array([1.0, 0.05, -0.7]), 0.3, -2.0, np.ones(3))
    chosen = choose_centred(state, form_of(problem), np.array([0.9, 0.1, 0.5]))
    told = []
    for left in ([0, 1, 2], [1, 2], [1], []):
        rest = np.zeros(3)
        rest[left] = state.delta[left]
        told.append(rest @ problem.gram @ rest / state.sigma2)
    best = int(np.argmin(np.array(told) + CENTRED_TELLS * np.arange(4)))
    assert best == 2 and chosen.tolist() == [True, False, True]


def simulate_prior(rng, p):
    sigma2 = PRIOR.scale / rng.standard_gamma(PRIOR.shape)
    log_tau, local = np.log(abs(rng.standard_cauchy())), rng.standard_cauchy(p) ** 2
    delta = np.sqrt(sigma2 * local) * np.exp(log_tau) * rng.standard_normal(p)
    return HorseshoeState(delta, sigma2, log_tau, local)


def simulate_response(x, state, root, rng):
    """Responses given the state, the intercept being 0: its prior is flat, so no contrast of rows depends on it."""
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


@pytest.mark.parametrize("kind", ["row", "gram", "gram, no line", "halves", "plain"])
def test_sweeps_leave_the_prior_as_it_is_when_responses_come_from_it(kind):
    """A draw from the prior, responses given it, two sweeps: a draw from the prior again (after Geweke, 2004).

    Every replicate is independent, so that the heavy tails of the scales cannot hide how slowly a long chain mixes.
    """
    n, p = (3, 7) if kind == "row" else (6, 3)
    x, _, s1 = made(n, p, seed=8)
    root, rng = np.linalg.cholesky(s1), np.random.default_rng(9)
    centred = None if kind == "gram, no line" else np.arange(p) % 2 == 0
    gains = []
    for _ in range(1200):
        start = state = simulate_prior(rng, p)
        z = simulate_response(x, state, root, rng)
        problem = reduce_regression(x, z, source_covariance=s1)
        form, response = form_of(problem), Response(problem.square, problem.n, PRIOR)
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
                state = sweep(state, update, problem.moment, response, line=line, rng=rng)
        gains.append(summary(state) - summary(start))
    gains = np.array(gains)
    assert (gains.std(0) > 0.1).all()
    assert (np.abs(gains.mean(0)) < SIGMAS * gains.std(0) / np.sqrt(len(gains))).all()
