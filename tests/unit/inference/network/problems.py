"""Small networks in float64 on which the sampler's parts are compared with plain definitions."""

import dataclasses
from itertools import pairwise

import numpy as np
import torch

from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales
from bandgap.inference.network.pcp_scales import point_estimate_scales
from bandgap.inference.network.scales import Scales
from bandgap.inference.network.whitened_network import (
    Layers,
    WhitenedNetwork,
    hidden_features,
    whiten,
)
from bandgap.networks.perceptron import layer_gradient_norms

CPU = torch.device("cpu")


def network(n, p, *, hidden=(4, 3), seed=0, dtype=torch.float64):
    """Return a whitened network of n rows and p inputs.

    Biases are not zero, and labels are near the source network's values.
    """
    theta_hat, x, y = raw(n, p, hidden=hidden, seed=seed)
    return whiten(theta_hat, x, y, device=CPU, dtype=dtype)


def raw(n, p, *, hidden=(4, 3), seed=0):
    """Return theta_hat, x (n, p) and y (n,) of `network`."""
    rng = np.random.default_rng(seed)
    widths = (p, *hidden, 1)
    theta_hat = [
        torch.from_numpy(rng.normal(size=(after, before + 1)) / np.sqrt(before + 1))
        for before, after in pairwise(widths)
    ]
    x = torch.from_numpy(rng.normal(size=(n, p)))
    return theta_hat, x, plain(theta_hat, x) + 0.3 * torch.from_numpy(rng.normal(size=n))


def plain(theta, x):
    """Return f(x; theta) of layers (..., out, in + 1) for rows x (n, p), by definition."""
    h = x
    for i, layer in enumerate(theta):
        h = h if i == 0 else torch.relu(h)
        h = torch.cat([h, torch.ones_like(h[..., :1])], -1) @ layer.mT
    return h.squeeze(-1)


def sds_of(theta_hat, *, seed=5):
    """Return prior standard deviations of every weight, over a factor of about ten."""
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(0.3 * np.exp(0.6 * rng.normal(size=t.shape))) for t in theta_hat]


def prior_of(theta_hat, x, *, lam=1.0, noise_b=0.2):
    params = {f"weight.{i + 1}": layer[:, :-1] for i, layer in enumerate(theta_hat)}
    params |= {f"bias.{i + 1}": layer[:, -1] for i, layer in enumerate(theta_hat)}
    return point_estimate_scales(layer_gradient_norms(params, x), lam=lam, noise_b=noise_b)


def free_priors_of(theta_hat, x):
    """Return by name the priors with free scales.

    The inverse gamma prior is narrow, so that networks stay of one size.
    """
    steps = torch.ones(len(theta_hat), dtype=torch.float64)
    return {
        "point estimate": prior_of(theta_hat, x),
        "inverse gamma": InverseGammaScales(0.2, steps, shape=4.0, scale=0.6),
    }


def draw_z(net: WhitenedNetwork, chains, *, seed=0, size=1.0) -> Layers:
    generator = torch.Generator().manual_seed(seed)
    dtype = net.inputs.dtype
    return [
        size * torch.randn((chains, *shape), generator=generator, dtype=dtype)
        for shape in net.shapes
    ]


def with_labels_from_the_model(net, z, scales, *, generator):
    """Return the network with separate labels (chain, n) for every chain.

    They are drawn at weights z, with an output layer from its prior.
    """
    h = hidden_features(net, z, scales).features
    noise = torch.randn(
        h.shape[0], h.shape[2] + net.n_rows, generator=generator, dtype=torch.float64
    )
    w = (
        net.theta_hat[-1]
        + (torch.sqrt(scales.rho) * scales.sigma)[:, None] * noise[:, : h.shape[2]]
    )
    f = (h @ w.unsqueeze(-1)).squeeze(-1)
    return dataclasses.replace(net, y=f + scales.sigma[:, None] * noise[:, h.shape[2] :])


def state_of(*rows):
    """Return states (chain, 1 + L) from rows of log t, log sigma and w, with c = softmax(w)."""
    values = torch.tensor(rows, dtype=torch.float64)
    return torch.cat([values[:, 1:2], values[:, :1] + torch.log_softmax(values[:, 2:], -1)], 1)


def draws_of(prior, n=4000, seed=0):
    return prior.draw(n, generator=torch.Generator().manual_seed(seed))


def scales_at(at):
    """Return the scales at rows of log s_1^2, log s_2^2, log s_3^2 = log rho and log sigma."""
    return Scales(torch.exp(0.5 * at[:, [0, 1, 2]]), torch.exp(at[:, 2]), torch.exp(at[:, 3]))


def slope(function, at, *, e=1e-6):
    """Return central differences of `function`, values (chain,), by every entry of `at`."""
    result = torch.empty_like(at)
    for i in np.ndindex(at.shape[1:]):
        shift = torch.zeros_like(at)
        shift[(slice(None), *i)] = e
        result[(slice(None), *i)] = (function(at + shift) - function(at - shift)) / (2 * e)
    return result
