"""Passes: steps against published formulas and exact posteriors, counts of rows."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import torch

from bandgap.foundation.errors import Cancelled
from bandgap.research.assumed_density.belief import (
    Belief,
    Gamma,
    LikelihoodSites,
    PriorSites,
    Weights,
    flattened,
    fresh_belief,
    with_average,
)
from bandgap.research.assumed_density.moments import Moments, output_moments
from bandgap.research.assumed_density.noise import noise_step
from bandgap.research.assumed_density.passes import take_in
from tests.research.assumed_density.test_moments import random_weights

NETWORKS = [
    ((3, 4, 1), True),
    ((3, 4, 3, 1), True),
    ((3, 4, 1), False),
    ((3, 3, 3, 1), False),
    ((4, 3, 2, 3, 1), False),
]
ids = ["-".join(map(str, w)) + ("" if b else " no biases") for w, b in NETWORKS]


def rows_for(widths, *, n=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, widths[0])), rng.normal(size=n)


def twin_log_z(means, variances, x, y, *, noise, biased, atoms):
    """log Z of one row in torch, by the published formulas."""
    z = x
    w = torch.zeros_like(x)
    rho = torch.ones_like(x)
    normal = torch.distributions.Normal(torch.tensor(0.0).double(), 1.0)
    for level, (m, v) in enumerate(zip(means, variances, strict=True)):
        if biased:
            z, w, rho = (
                torch.cat([p, torch.tensor([e]).double()])
                for p, e in ((z, 1.0), (w, 0.0), (rho, 1.0))
            )
        c = m.shape[1]
        slab = 1.0 - torch.prod(1.0 - rho) if atoms else torch.tensor(1.0).double()
        total = m @ (rho * z) / c**0.5 if atoms else m @ z / c**0.5
        if atoms:
            variance = (m**2 + v) @ (rho * w) + v @ (rho * z**2) + m**2 @ (rho * (1 - rho) * z**2)
        else:
            variance = (m**2 + v) @ w + v @ z**2
        am = total / slab
        av = variance / c / slab - (1 - slab) * am**2
        if level < len(means) - 1:
            r = av.sqrt()
            t = am / r
            gamma = torch.exp(normal.log_prob(t)) / normal.cdf(t)
            delta = gamma + t
            s = 1.0 - gamma * delta
            if atoms:
                rho = slab * normal.cdf(t)
                z = r * delta
                w = av * s
            else:
                rho = torch.ones_like(t)
                z = r * normal.cdf(t) * delta
                w = av * normal.cdf(t) * (s + normal.cdf(-t) * delta**2)
    n = noise.rate / (noise.shape - 1.0)
    spread = av[0] + n
    log_slab = -0.5 * torch.log(2 * torch.pi * spread) - 0.5 * (y - am[0]) ** 2 / spread
    if not atoms or slab == 1.0:
        return log_slab
    log_atom = -0.5 * np.log(2 * np.pi * n) - 0.5 * y**2 / n
    return torch.logaddexp(torch.log(slab) + log_slab, torch.log1p(-slab) + log_atom)


def twin_gradients(weights, x, y, *, noise, atoms):
    """By row: log Z, and g_m and g_v of every layer, by autograd."""
    results = []
    for row, label in zip(x, y, strict=True):
        m, v = (
            [torch.tensor(p, requires_grad=True) for p in parts]
            for parts in (weights.means, weights.variances)
        )
        settings = {"noise": noise, "biased": weights.biased, "atoms": atoms}
        log_z = twin_log_z(m, v, torch.tensor(row), torch.tensor(label), **settings)
        grads = torch.autograd.grad(log_z, [*m, *v])
        results.append(
            (
                log_z.item(),
                [g.numpy() for g in grads[: len(m)]],
                [g.numpy() for g in grads[len(m) :]],
            )
        )
    return results


def belief_of(weights, noise):
    """A belief of these weights and this noise, before any row."""
    fresh = fresh_belief(
        (weights.n_inputs, *(m.shape[0] for m in weights.means)),
        biased=weights.biased,
        rng=np.random.default_rng(0),
    )
    return replace(fresh, weights=weights, noise=noise)


@pytest.mark.parametrize("atoms", [False, True], ids=["PBP", "SSPBP"])
@pytest.mark.parametrize(("widths", "biased"), NETWORKS, ids=ids)
def test_rows_move_the_weights_by_the_gradients_of_the_published_formulas(widths, biased, atoms):
    """One row by its moments; six at a time by sums over rows, with noise that stays."""
    weights = random_weights(widths, biased=biased, seed=4)
    noise = Gamma(1e13, 1e13 * 0.5)
    start = belief_of(weights, noise)
    x, y = rows_for(widths)
    by_row = twin_gradients(weights, x, y, noise=noise, atoms=atoms)
    rng = np.random.default_rng(0)
    one, info = take_in(start, x[:1], y[:1], rng=rng, atoms=atoms)
    six, _ = take_in(start, x, y, rng=rng, atoms=atoms, batch=6)
    assert info.log_z[0] == pytest.approx(by_row[0][0], rel=1e-10)
    for level, (m, v) in enumerate(zip(weights.means, weights.variances, strict=True)):
        bends = [r[1][level] ** 2 - 2.0 * r[2][level] for r in by_row]
        close = {"rtol": 1e-10, "atol": 1e-10}
        np.testing.assert_allclose(one.weights.means[level], m + v * by_row[0][1][level], **close)
        np.testing.assert_allclose(one.weights.variances[level], v - v**2 * bends[0], **close)
        new_v = v / np.maximum(1.0 + v * sum(bends), 0.2)
        new_m = m + new_v * sum(r[1][level] for r in by_row)
        np.testing.assert_allclose(six.weights.means[level], new_m, **close)
        np.testing.assert_allclose(six.weights.variances[level], new_v, **close)


def one_weight(*, noise_variance, prior_variance):
    """The belief of y = w x + e with known noise."""
    weights = Weights((np.zeros((1, 1)),), (np.full((1, 1), prior_variance),), biased=False)
    fixed = Gamma(1e12, 1e12 * noise_variance)
    none = np.zeros(1)
    sites = PriorSites(none, none + 1.0 / prior_variance, none, none, none, (0,))
    return Belief(weights, fixed, (Gamma(),), (Gamma(),), sites)


def test_one_weight_with_belief_of_has_its_conjugate_posterior_and_evidence():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 1))
    y = 0.8 * x[:, 0] + 0.3 * rng.normal(size=50)
    belief, info = take_in(one_weight(noise_variance=0.09, prior_variance=2.0), x, y, rng=rng)
    precision = 1 / 2.0 + (x[:, 0] ** 2).sum() / 0.09
    assert belief.weights.variances[0][0, 0] == pytest.approx(1 / precision, rel=1e-7)
    assert belief.weights.means[0][0, 0] == pytest.approx(
        (x[:, 0] @ y) / 0.09 / precision, rel=1e-7
    )
    covariance = 0.09 * np.eye(50) + 2.0 * np.outer(x[:, 0], x[:, 0])
    evidence = -0.5 * (
        np.linalg.slogdet(2 * np.pi * covariance)[1] + y @ np.linalg.solve(covariance, y)
    )
    assert info.log_z.sum() == pytest.approx(evidence, rel=1e-7)


def noise_after(e, v, a, b):
    """(a, b) after a label at distance e from a mean of variance v."""
    e, v, share, a, b = torch.tensor([e, v, 1.0, a, b], dtype=torch.float64)
    return [float(part) for part in noise_step(e, Moments(torch.zeros(()), v, share), a, b)[1:]]


@pytest.mark.parametrize(("a", "b"), [(6.0, 6.0), (50.0, 20.0), (5000.0, 700.0), (1e8, 1e7)])
@pytest.mark.parametrize(("e", "v"), [(0.0, 0.5), (1.0, 0.0), (3.0, 0.2)])
def test_noise_step_has_the_published_gamma_to_the_last_digits(a, b, e, v):
    found_a, found_b = noise_after(e, v, a, b)
    with mp.workdps(60):
        a, b, e, v = (mp.mpf(p) for p in (a, b, e, v))
        z, z1, z2 = (mp.npdf(e, 0, mp.sqrt(v + n)) for n in (b / (a - 1), b / a, b / (a + 1)))
        new_a = 1 / (z * z2 / z1**2 * (a + 1) / a - 1)
        new_b = 1 / (z2 / z1 * (a + 1) / b - z1 / z * a / b)
        np.testing.assert_allclose([found_a, found_b], [float(new_a), float(new_b)], rtol=1e-11)


def test_noise_that_no_gamma_fits_stays():
    """a of 1.1 and a label far out: E gamma^2 is too large for a gamma with a of at least 2."""
    assert noise_after(50.0, 0.1, 1.1, 1.0) == [1.1, 1.0]


def test_stochastic_ep_posterior_is_the_prior_times_n_averaged_factors():
    widths = (3, 5, 1)
    x, y = rows_for(widths, n=30, seed=3)
    rng = np.random.default_rng(0)
    belief = fresh_belief(widths, rng=rng)
    belief = with_average(belief, belief, n=30)
    start_shift = flattened(belief.weights.means) / flattened(belief.weights.variances)
    for _ in range(3):
        belief, _ = take_in(belief, x, y, rng=rng)
    m = flattened(belief.weights.means)
    v = flattened(belief.weights.variances)
    np.testing.assert_allclose(
        1.0 / v, belief.prior.precision + 30 * belief.likelihood.precision, rtol=1e-9
    )
    np.testing.assert_allclose(
        m / v, start_shift + 30 * belief.likelihood.shift, rtol=1e-9, atol=1e-9
    )
    assert belief.noise.shape == pytest.approx(6.0 + 30 * belief.likelihood.shape, rel=1e-9)
    assert belief.noise.rate == pytest.approx(6.0 + 30 * belief.likelihood.rate, rel=1e-9)


def test_passes_of_stochastic_ep_end_at_the_exact_posterior_and_filtering_counts_twice():
    """The model is linear in one weight.

    After 10 passes the average has 1 / n of the information; filtering has 10 times as much.
    """
    rng = np.random.default_rng(5)
    x = rng.choice([-1.0, 1.0], size=(40, 1))
    y = 0.5 * x[:, 0] + 0.4 * rng.normal(size=40)
    start = one_weight(noise_variance=0.16, prior_variance=2.0)
    precision = 0.5 + 40 / 0.16
    mean = (x[:, 0] @ y) / 0.16 / precision
    none = np.zeros(1)
    averaged = replace(start, likelihood=LikelihoodSites(none, none))
    filtered = start
    for _ in range(10):
        averaged, _ = take_in(averaged, x, y, rng=rng)
        filtered, _ = take_in(filtered, x, y, rng=rng)
    assert 1 / averaged.weights.variances[0][0, 0] == pytest.approx(precision, rel=1e-3)
    assert averaged.weights.means[0][0, 0] == pytest.approx(mean, abs=0.05)
    assert 1 / filtered.weights.variances[0][0, 0] == pytest.approx(0.5 + 10 * 40 / 0.16, rel=1e-3)


def test_batch_that_does_not_fit_starts_again_with_fewer():
    """Labels are far outside their scale.

    Ten rows of one batch correct the same residual; rows one after the other do not.
    """
    x, y = np.ones((40, 1)), np.full(40, 60.0)
    start = one_weight(noise_variance=0.5, prior_variance=1.0)
    belief, info = take_in(start, x, y, rng=np.random.default_rng(0), batch=10)
    assert info.batch < 10
    assert belief.weights.means[0][0, 0] == pytest.approx(60.0, rel=0.05)


def test_units_far_below_zero_give_finite_numbers():
    """Units at t from -1e3 to 1e3: a literal port has 0 / 0 in every row."""
    rng = np.random.default_rng(1)
    weights = Weights(
        (rng.choice([-100.0, 100.0], size=(6, 4)), rng.normal(size=(1, 7))),
        (np.full((6, 4), 0.01), np.full((1, 7), 0.1)),
    )
    x, y = rows_for((3,), n=20)
    belief, info = take_in(belief_of(weights, Gamma()), x, y, rng=rng, batch=1)
    assert np.isfinite(info.log_z).all()
    assert all((a != b).any() for a, b in zip(belief.weights.means, weights.means, strict=True))
    assert output_moments(weights, x).variance.isfinite().all()


def test_pass_ends_where_it_is_cancelled():
    def cancel(update):
        raise Cancelled("cancelled by the test")

    x, y = rows_for((3,), n=10)
    with pytest.raises(Cancelled):
        take_in(
            fresh_belief((3, 4, 1), rng=np.random.default_rng(0)),
            x,
            y,
            rng=np.random.default_rng(0),
            progress=cancel,
        )


def test_average_after_a_first_pass_is_what_the_pass_gained():
    x, y = rows_for((3, 5, 1), n=30, seed=3)
    rng = np.random.default_rng(0)
    start = fresh_belief((3, 5, 1), rng=rng)
    after, _ = take_in(start, x, y, rng=rng)
    belief = with_average(after, start, n=30)
    v0 = flattened(start.weights.variances)
    v = flattened(after.weights.variances)
    np.testing.assert_allclose(1 / v, 1 / v0 + 30 * belief.likelihood.precision, rtol=1e-12)
    assert after.noise.shape == pytest.approx(6.0 + 30 * belief.likelihood.shape, rel=1e-12)
    assert belief.weights is after.weights
