r"""Bayesian networks with an independent inverse-gamma scale for each layer.

Abba (2023), section 2.5: theta_l ~ N(centre_l, tau_l I), tau_l ~ InvGamma(2, 1) independently,
y ~ N(f(x; theta), sigma^2), sigma^2 ~ InvGamma(2, b) with b = `noise_share` times the variance of
the training gaps.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bandgap.foundation.config import Positive, Settings
from bandgap.foundation.machine import choose_device
from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import Layers, whiten
from bandgap.posterior import NetworkPosterior
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.shared.sampled_network import TargetRows, sample_posterior


@dataclass(frozen=True)
class IndependentScalesConfig(Settings):
    """Noise and sampler.

    Parameters
    ----------
    noise_share
        Mean of the noise variance's prior, as a share of the variance of the training gaps. The
        paper does not state it; 0.2 because the prior has to follow the unit of the gaps, and
        counts as four rows only.
    """

    noise_share: Positive = 0.2
    sampler: SamplerConfig = field(default_factory=SamplerConfig)


def sample_independent_scales(
    centre: Layers, rows: TargetRows, config: IndependentScalesConfig, fitting: Fitting
) -> NetworkPosterior:
    """Sample weights and scales around the layers in `centre`, given the training rows."""
    torch_device = choose_device(fitting.device)
    net = whiten(centre, rows.x, rows.y, device=torch_device, dtype=torch.float32)
    prior = InverseGammaScales(
        rows.noise_b(config.noise_share), start_factor(centre).to(torch_device)
    )
    return sample_posterior(
        net,
        prior,
        rows.standardiser,
        fitting,
        sampler=config.sampler,
    )


def start_factor(centre: Layers) -> Tensor:
    """Return 1 / (number of inputs) of every layer, (L,).

    Chains start with tau_l near this value, so that activations are of order one.
    """
    return torch.tensor([1.0 / layer.shape[1] for layer in centre], dtype=torch.float64)
