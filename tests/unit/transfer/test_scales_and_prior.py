"""Scales and their priors: what methods record, and the warning of an unchanged prior."""

import numpy as np
import pytest
import torch

from bandgap.posterior import mix
from bandgap.priors.horseshoe import draw_global_scale
from bandgap.priors.penalized_complexity import distance
from bandgap.priors.source_distance import source_distance
from bandgap.runs.results import prior_comparisons
from bandgap.transfer import METHODS
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.method_settings import BRIEF

LAYERS = [f"tau of layer {layer}" for layer in (1, 2, 3)]
SCALES = {
    "btl_pcp_pe": ["tau"],
    "btl_pcp_sg": ["tau"],
    "btl_pcp_vi": ["tau"],
    "btl_bnn": LAYERS,
    "bnn": LAYERS,
    "last_layer_horseshoe": ["tau"],
    "last_layer_pcp": ["x"],
    "vecchia_gp": ["length of the kernel", "spread of the process"],
    "ulisse_gp": ["length of the kernel", "spread of the process"],
}
EXACT = {"chains": 4, "draws": 500}


def fit(source, data, name, **settings):
    method = METHODS[name]
    config = method.configure({**BRIEF.get(name, {}), **settings})
    return method.fit(source, data, config, Fitting(0, device="cpu"))


@pytest.mark.parametrize("name", SCALES)
def test_method_with_a_scale_records_draws_of_its_posterior_and_of_its_prior(
    name, knowing_source, target
):
    comparisons = prior_comparisons(fit(knowing_source, target, name))
    assert [comparison.scale for comparison in comparisons] == SCALES[name]
    assert all(
        0.0 <= comparison.distance <= 1.0 and comparison.error > 0.0 for comparison in comparisons
    )


def test_mixture_warns_only_if_the_scale_of_no_network_moved(knowing_source, source_of, target):
    still = fit(knowing_source, target, "last_layer_pcp", lam=1e5, **EXACT)
    moved = fit(knowing_source, target, "last_layer_pcp", **EXACT)
    (both,) = prior_comparisons(mix([still, still]))
    (one,) = prior_comparisons(mix([still, moved]))
    assert both.equals_prior and not one.equals_prior


def test_draws_of_priors_have_the_distributions_that_they_are_of():
    """Kolmogorov distance of 20,000 draws: above 0.014 with probability 0.001."""
    n = 20_000
    rng = np.random.default_rng(1)
    tau = np.sort(draw_global_scale(n, rng))
    prior = source_distance(np.array([1.0, 50.0, 2000.0]), lam=0.7, median_x=1.0)
    x = torch.from_numpy(np.sort(prior.draw(n, rng)))
    expected = [2.0 / np.pi * np.arctan(tau), 1.0 - np.exp(-0.7 * distance(x, prior.terms).numpy())]
    for below in expected:
        assert np.abs(below - (np.arange(n) + 0.5) / n).max() < 0.014


def test_default_rate_of_the_variational_prior_is_the_rule_where_it_can_be_reached(
    knowing_source, target
):
    default, rule = (
        fit(knowing_source, target, "btl_pcp_vi", corr=0.95, **lam).diagnostics
        for lam in ({}, {"lam": "corr"})
    )
    assert default.figures["lam"] == rule.figures["lam"] != 1.0
    assert not any("No rate lam" in text for text in default.warnings)


def test_default_rate_of_the_variational_prior_acts_where_the_rule_has_none_and_says_so(
    knowing_source, target
):
    comparisons = fit(knowing_source, target, "btl_pcp_vi", corr=0.05).diagnostics
    assert 1e-3 < comparisons.figures["lam"] < 1.0  # 1 lets the target widen nothing
    assert comparisons.warnings[0].startswith("No rate lam of the prior gives the correlation 0.05")
