"""The samplers of mini-batch gradients on a Vecchia posterior, against its own gradient and
quadrature.
"""

from itertools import combinations

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.research.stochastic_gradient.asgld import AsgldConfig
from bandgap.research.stochastic_gradient.gradients import batch_gradient, control_variate
from bandgap.research.stochastic_gradient.hamcmc import HamcmcConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.msgld import MsgldConfig
from bandgap.research.stochastic_gradient.outcomes import RunConfig
from bandgap.research.stochastic_gradient.psgld import PsgldConfig
from bandgap.research.stochastic_gradient.samplers import CONFIGS
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from bandgap.research.vecchia.first_order import sample_first_order, site_target
from bandgap.research.vecchia.likelihood import build_blocks
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import Target
from tests.research.vecchia.samples import START, THETA, TRUTH, field

SAMPLERS = {
    "sgld": SgldConfig(0.05),
    "psgld": PsgldConfig(4e-4),  # its metric is about 130 here: gradients are means over 150 sites
    "msgld": MsgldConfig(0.02),
    "asgld": AsgldConfig(0.02),
    "sghmc": SghmcConfig(0.01, friction=0.2),
    "hamcmc": HamcmcConfig(0.02),
    "hamcmc_sa": HamcmcSaConfig(0.05),
}


def test_settings_of_every_sampler_are_tested():
    assert {name: type(config) for name, config in SAMPLERS.items()} == dict(CONFIGS)


def test_gradient_of_all_sites_is_that_of_the_log_density(target, mode):
    sites = site_target(target, mode)
    at = torch.tensor([[0.3, -0.4, 0.8, 0.1], [0.0, 1.0, -0.5, -1.2]], dtype=torch.float64)
    gradient = batch_gradient(sites, torch.arange(150).expand(2, -1))(at).total.numpy()

    def density(x):
        phi = sites.centre + sites.root @ x
        return target.pull(phi[:3], phi[3:]).value

    for row, x in zip(gradient, at.numpy(), strict=True):
        slopes = [(density(x + s) - density(x - s)) / 2e-4 for s in 1e-4 * np.eye(4)]
        np.testing.assert_allclose(row, slopes, atol=1e-6)


def test_sums_at_the_centre_equal_those_near_it(target, mode):
    sites = site_target(target, mode)
    rows = torch.tensor([[3, 70, 149], [0, 1, 2]])
    centre = torch.zeros(2, 4, dtype=torch.float64)
    nearby = sites.row_gradient(centre + 1e-9, rows)
    torch.testing.assert_close(sites.row_gradient(centre, rows), nearby, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("control", [False, True], ids=["plain", "control variate"])
def test_mean_over_all_batches_is_the_gradient_of_all_sites(control):
    small = Target(build_blocks(*field(5, 2, THETA, seed=3), m=2))
    sites = site_target(small, find_mode(small, small.eta(START)))
    at = torch.tensor([[0.2, -0.1, 0.3, 0.4, -0.6]], dtype=torch.float64)
    variate = control_variate(sites, torch.zeros(5, dtype=torch.float64)) if control else None
    of_all_rows = batch_gradient(sites, torch.arange(5)[None])(at).total
    parts = [
        batch_gradient(sites, torch.tensor([pair]), variate)(at).total
        for pair in combinations(range(5), 2)
    ]
    np.testing.assert_allclose(torch.stack(parts).mean(0), of_all_rows, rtol=1e-11, atol=1e-11)


def test_step_that_is_too_long_warns():
    small = Target(build_blocks(*field(40, 2, TRUTH, seed=4, covariates=1), m=5))
    mode = find_mode(small, small.eta(START))
    with pytest.raises(ConfigError, match="all 4 chains diverged"):
        sample_first_order(small, mode, SgldConfig(50.0), RunConfig(warmup=0, draws=50), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.soak if n == "hamcmc" else ())
        for n in SAMPLERS
        if n != "asgld"
    ],
)
def test_samplers_agree_with_quadrature(target, mode, quadrature, name):
    """Means within 0.2 sd and spreads within 15 %, by batches of a fifth with control variates."""
    run = RunConfig(warmup=500, draws=6_000, thin=5, batch_size=30)
    draws = sample_first_order(target, mode, SAMPLERS[name], run, seed=2)
    flat = draws.eta.reshape(-1, 3)
    assert np.abs((flat.mean(0) - quadrature.mean) / quadrature.sd).max() < 0.2
    spread = flat.std(0) / quadrature.sd
    assert spread.min() > 0.85 and spread.max() < 1.15


@pytest.mark.slow
def test_asgld_is_too_narrow_and_warns(target, mode, quadrature):
    run = RunConfig(warmup=1000, draws=3_000, thin=5, batch_size=30)
    draws = sample_first_order(target, mode, SAMPLERS["asgld"], run, seed=2)
    assert (draws.eta.reshape(-1, 3).std(0) / quadrature.sd).max() < 0.9
    assert any("biased" in words or "0.46" in words for words in draws.warnings)
