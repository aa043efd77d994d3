"""BTL-VI: how tightly it holds the weights, how it chooses that, and what it refuses."""

from dataclasses import replace

import numpy as np
import torch
from scipy import stats

from bandgap.networks.perceptron import forward, layers_of
from bandgap.networks.variational import prior_sds
from bandgap.research.methods import btl_vi
from bandgap.transfer import get_method
from bandgap.transfer.shared.method import Fitting

TRAINING = {
    "epochs": 60,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "start_sd": 0.02,
    "ramp_share": 0.0,
}


def fit(source, target, *, seed=1, **settings):
    config = get_method("btl_vi").configure(
        {"training": TRAINING, "draws": 30, "standardise": "source", **settings}
    )
    return btl_vi.fit(source, target, config, Fitting(seed, device="cpu"))


def test_weights_held_by_much_information_stay_at_the_source(knowing_source, target):
    certain = replace(
        knowing_source,
        fisher={n: torch.full_like(v, 1e8) for n, v in knowing_source.params.items()},
    )
    posterior = fit(certain, target, kappas=[1.0], gap_scale="source")
    f = forward(knowing_source.params, torch.from_numpy(target.features)).numpy()
    np.testing.assert_allclose(
        posterior.mean_draws_eV(target.features), np.broadcast_to(f, (1, 30, 40)), atol=0.02
    )


def test_without_information_weights_are_free_to_fit(knowing_source, target):
    free = replace(
        knowing_source, fisher={n: torch.zeros_like(v) for n, v in knowing_source.params.items()}
    )
    errors = []
    for source in (
        free,
        replace(free, fisher={n: torch.full_like(v, 1e8) for n, v in free.params.items()}),
    ):
        means = (
            fit(source, target, kappas=[1.0], gap_scale="source")
            .mean_draws_eV(target.features)
            .mean((0, 1))
        )
        errors.append(float(np.mean((means - target.gaps_eV) ** 2)))
    assert errors[0] < 0.5 * errors[1]


def test_kappa_is_the_one_under_which_held_out_rows_are_most_likely(knowing_source, target):
    figures = fit(knowing_source, target, kappas=[10.0, 1.0, 1e-4]).diagnostics.figures
    scores = {k: figures[f"held_out_nats_at_kappa_{k:g}"] for k in (10.0, 1.0, 1e-4)}
    assert len(set(scores.values())) == 3
    assert figures["kappa"] == max(scores, key=lambda k: scores[k])
    assert not any(
        "held_out" in name for name in fit(knowing_source, target, kappas=[0.5]).diagnostics.figures
    )


def test_weights_without_information_in_the_target_keep_their_prior(knowing_source, target):
    """A feature that is zero in every training row: mean, sd and draws of its weights."""
    features = target.features.copy()
    features[:, 2] = 0.0
    posterior = fit(knowing_source, replace(target, features=features), kappas=[0.3])
    start = layers_of(knowing_source.params)[0][:, 2]
    fisher = knowing_source.fisher["weight.1"][:, 2]
    floor = 1.0 / prior_sds(knowing_source.params)["weight.1"] ** 2
    torch.testing.assert_close(posterior.theta_hat_1[:, 2], start)
    torch.testing.assert_close(posterior.sd_1[:, 2], (0.3 * fisher + floor).rsqrt())
    varies = torch.arange(6) != 2
    assert (
        float(
            (posterior.theta_hat_1[:, varies] - layers_of(knowing_source.params)[0][:, varies])
            .abs()
            .min()
        )
        > 0
    )


def test_draws_of_the_upper_layers_are_independent_normals(knowing_source, target):
    posterior = fit(knowing_source, target, kappas=[1.0], draws=2000)
    draws = posterior.upper[0][0].flatten(1)
    whitened = (draws - draws.mean(0)) / draws.std(0)
    assert stats.kstest(whitened.flatten().numpy(), "norm").pvalue > 1e-3
    assert float(torch.corrcoef(whitened.T).fill_diagonal_(0.0).abs().max()) < 5 / 2000**0.5
    assert posterior.sigma.shape == (1, 2000) and len(set(posterior.sigma[0])) == 1
