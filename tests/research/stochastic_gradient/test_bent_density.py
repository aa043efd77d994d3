"""The bent density in the plane.

Its exact moments, and every sampler that claims it, from chains that start there.

An abs z below 4 for each of five moments of a correct sampler is a false alarm in 1 of 3,000 runs;
seeds are fixed.
"""

import math

import numpy as np
import pytest
import torch

from bandgap.research.stochastic_gradient.halving import halving_warning, sample_and_halve
from bandgap.research.stochastic_gradient.hamcmc import HamcmcConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from benchmarks.studies.bent_density import (
    MOMENTS,
    BentDensity,
    centred_powers,
    exact_draws,
    exact_moments,
    gradient,
    log_density,
)

CHAINS = 300
PAIRS = {"regularise": 1.0, "least_curvature": 2.0}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def run(sampler, *, draws, warmup=0, tau=1.0, seed=0, longest_move=1e3, chains=CHAINS):
    start = exact_draws(
        chains * sampler.walkers, generator=generator(seed + 50), inverse_temperature=tau
    )
    if sampler.walkers > 1:
        start = start.reshape(chains, sampler.walkers, 2)
    extras = Extras(lambda x: centred_powers(x, inverse_temperature=tau))
    config = RunConfig(warmup, draws, draws, longest_move=longest_move)
    return sample(BentDensity(), sampler, start, config=config, seed=seed, extras=extras)


def scores(draws, *, tau=1.0):
    """z scores of the five moments from chain means, and their estimates."""
    means = draws.recorded.mean(1).numpy()
    exact = np.array(list(exact_moments(tau).values()))
    z = (means.mean(0) - exact) / (means.std(0, ddof=1) / math.sqrt(len(means)))
    return dict(zip(MOMENTS, z, strict=True)), dict(zip(MOMENTS, means.mean(0), strict=True))


def assert_in_law(draws, *, tau=1.0):
    z, estimates = scores(draws, tau=tau)
    exact = exact_moments(tau)
    assert max(map(abs, z.values())) < 4, z
    for name, bound in {"E b1^2": 0.08, "Var b2": 0.015, "Cov(b1^2, b2)": 0.04}.items():
        assert abs(estimates[name] - exact[name]) < bound, (name, estimates[name])


def test_moments_are_those_of_the_paper_and_of_quadrature():
    exact = exact_moments()
    paper = (1.068815443662, 2.5, -0.932796139084, 0.147352096712, 0.339408386847)
    np.testing.assert_allclose(list(exact.values()), paper, rtol=1e-11)

    b1 = torch.linspace(-6, 6, 2001, dtype=torch.float64)[:, None]
    e = torch.linspace(-9, 9, 2001, dtype=torch.float64)[None]  # the ridge's own coordinate
    b2 = -1.2 + (b1**2 + e) / 4
    weight = torch.exp(log_density(torch.stack(torch.broadcast_tensors(b1, b2), -1))) / 4
    # The trapezoid rule is exact where all tails vanish.
    mass = float(weight.sum()) * (12 / 2000) * (18 / 2000)

    def mean(values):
        return float((weight * values).sum() / weight.sum())

    second = mean(b1**2)
    covariance = mean(b1**2 * b2) - mean(b1**2) * mean(b2)
    assert math.log(mass) == pytest.approx(0.703165789471, abs=1e-10)
    assert second == pytest.approx(exact["E b1^2"], abs=1e-10)
    assert covariance == pytest.approx(exact["Cov(b1^2, b2)"], abs=1e-10)


def test_gradient_is_that_of_the_log_density():
    x = torch.tensor([[0.7, -0.3], [-1.4, 0.2]], dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(log_density(x).sum(), x)
    np.testing.assert_allclose(gradient(x.detach()), expected, atol=1e-13)


@pytest.mark.parametrize("tau", [1.0, 2.0])
def test_exact_draws_are_in_the_law(tau):
    x = exact_draws(200_000, generator=generator(), inverse_temperature=tau)
    quantities = centred_powers(x, inverse_temperature=tau).numpy()
    exact = np.array(list(exact_moments(tau).values()))
    z = (quantities.mean(0) - exact) / (quantities.std(0) / math.sqrt(len(x)))
    assert np.abs(z).max() < 4
    assert float(log_density(x).mean()) == pytest.approx(-0.75 / tau, abs=0.01)


def test_sghmc_stays_in_the_law():
    draws, info = run(SghmcConfig(4e-4, friction=0.1), draws=1000)
    assert info.divergences == 0
    assert_in_law(draws)


@pytest.mark.slow
def test_sgld_with_a_short_step_stays_in_the_law():
    assert_in_law(run(SgldConfig(0.0025), draws=3200)[0])


@pytest.mark.slow
def test_hamcmc_stays_in_the_law():
    """300 chains of three walkers, T = 10 for each of them; every chain counts.

    Pairs of walkers that are far apart give rare matrices of eigenvalues in the hundreds, with a
    drift of which |h G g| is beyond the usual bound. As the move is tamed, below 1 always, such a
    chain goes on; to end it would condition the law on the matrices. In eight seeds none diverged,
    and the largest abs z was 3.3.
    """
    draws, info = run(HamcmcConfig(0.01, walkers=3, **PAIRS), draws=3000, longest_move=1e30)
    assert info.divergences == 0 and info.warnings == () and len(draws.recorded) == CHAINS
    assert_in_law(draws)


def test_hamcmc_sa_stays_in_the_law_in_a_shorter_run():
    """A quarter of the run that the slow test makes: the same bounds on z."""
    draws, info = run(HamcmcSaConfig(0.01, memory=3, **PAIRS), warmup=300, draws=800)
    z, _ = scores(draws)
    assert info.divergences == 0 and max(map(abs, z.values())) < 4


def halved(step):
    start = exact_draws(CHAINS, generator=generator(7))
    run_of = RunConfig(200, 400, 400)
    extras = Extras(centred_powers)
    return sample_and_halve(
        BentDensity(), SgldConfig(step), start, config=run_of, seed=1, extras=extras
    )[1]


def test_step_halving_warns_of_a_step_that_is_too_long_and_of_no_other():
    long = halved(0.04).warnings
    assert [w.kind for w in long] == ["step too long"]
    assert "standard errors. Shorten the step" in long[0].text
    assert halved(0.0025).warnings == ()


# 1 - Phi(2.607) is a fifth of 1 - Phi(2).
@pytest.mark.parametrize("quantities, bound", [(1, 2.0), (5, 2.607)])
def test_step_halving_warns_beyond_two_combined_standard_errors(quantities, bound):
    """Chain means of 1 and -1.

    At 4 chains of each run the combined standard error of a mean is sqrt(2 / 3).
    """
    values = (
        torch.tensor([1.0, -1.0, 1.0, -1.0])
        .double()[:, None, None]
        .expand(4, 3, quantities)
        .clone()
    )
    for factor, warned in ((0.99, False), (1.01, True)):
        moved = values.clone()
        moved[..., -1] += factor * bound * math.sqrt(2 / 3)
        warning = halving_warning(values, moved, step=0.1)
        assert (warning is not None) == warned
        assert warning is None or (
            warning.kind == "step too long" and f"mean of quantity {quantities}" in warning.text
        )


def test_step_halving_has_the_stated_rate_of_false_alarms():
    """Two samples of the same law, 30 chains, five quantities: about 1 run in 20."""
    rng = torch.Generator().manual_seed(0)
    alarms = sum(
        halving_warning(*torch.randn(2, 30, 4, 5, generator=rng, dtype=torch.float64), step=0.1)
        is not None
        for _ in range(400)
    )
    assert alarms < 0.08 * 400
