"""BTL-PCP-VI: what its draws are made of, its settings, and sources that it cannot start from."""

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.inference.network import sampler as network_sampler
from bandgap.networks.perceptron import layers_of
from bandgap.research.methods import btl_pcp_vi
from bandgap.transfer import get_method
from bandgap.transfer.shared.method import Fitting

BRIEF = {"chains": 2, "warmup": 20, "draws": 20, "keep": 8, "max_steps": 4}


def fit(source, target, **settings):
    config = get_method("btl_pcp_vi").configure(
        {"sampler": BRIEF, "standardise": "source", **settings}
    )
    return btl_pcp_vi.fit(source, target, config, Fitting(1, device="cpu"))


def test_draws_at_the_training_rows_are_those_that_the_sampler_fitted(
    knowing_source, target, monkeypatch
):
    """The first layer is restored from its coordinates, the output layer from scaled ones."""
    evaluated = []

    def spy(*args, **kwargs):
        evaluated.append(network_sampler.sample_network(*args, **kwargs))
        return evaluated[0]

    monkeypatch.setattr(btl_pcp_vi, "sample_network", spy)
    posterior = fit(knowing_source, target)
    f = (
        posterior.mean_draws_eV(target.features) - posterior.standardiser.y_mean_eV
    ) / posterior.standardiser.y_sd_eV
    kept_draws = np.linspace(0, 19, num=4).round().astype(int)
    np.testing.assert_allclose(f, evaluated[0][1].fitted[:, kept_draws], rtol=0, atol=2e-4)


def test_prior_is_the_sources_posterior(knowing_source, target):
    posterior = fit(knowing_source, target)
    source_posterior = knowing_source.variational
    assert torch.equal(posterior.theta_hat_1, layers_of(source_posterior.mean)[0])
    assert torch.equal(posterior.sd_1, layers_of(source_posterior.sd)[0])
    expected = torch.sqrt(
        1.0 + torch.from_numpy(posterior.tau * posterior.layer_weights[..., 0])
    ).float()
    torch.testing.assert_close(posterior.scale_1, expected)


def test_share_of_each_layer_in_the_variance_of_the_output_is_that_of_its_gradient(
    knowing_source, target
):
    """By automatic differentiation, one input after the other."""
    posterior = fit(knowing_source, target, gap_scale="source")
    source_posterior = knowing_source.variational
    expected = np.zeros(3)
    for row in torch.from_numpy(target.features).double():
        leaves = {n: v.double().requires_grad_(True) for n, v in source_posterior.mean.items()}
        h = row
        for i in (1, 2, 3):
            h = leaves[f"weight.{i}"] @ h + leaves[f"bias.{i}"]
            h = torch.relu(h) if i < 3 else h
        for (name, leaf), gradient in zip(
            leaves.items(), torch.autograd.grad(h.sum(), leaves.values()), strict=True
        ):
            assert leaf.shape == gradient.shape
            expected[int(name[-1]) - 1] += (
                float(((source_posterior.sd[name].double() * gradient) ** 2).sum()) / 40
            )
    np.testing.assert_allclose(posterior.layer_sensitivity, expected, rtol=1e-6)


def test_rate_by_the_rule_is_refused_or_one_halfway_taken_where_the_source_is_less_certain(
    knowing_source, target
):
    with pytest.raises(
        ConfigError, match=r"lam = corr: no rate between .* gives a correlation of 0.05 .*Set lam"
    ) as error:
        fit(knowing_source, target, lam="corr", corr=0.05)
    nearest = fit(knowing_source, target, corr=0.05).diagnostics
    halfway = fit(knowing_source, target, lam="corr", corr=error.value.middle).diagnostics
    assert nearest.figures["lam"] == halfway.figures["lam"]
    assert f"the one that gives {error.value.middle:.2f} was taken" in nearest.warnings[0]
    assert (
        1e-3 < fit(knowing_source, target, lam="corr", corr=0.95).diagnostics.figures["lam"] < 1e3
    )
