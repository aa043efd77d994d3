r"""BNN: a Bayesian network of the source's shape on the target alone, what a Bayesian transfer must beat.

Abba (2023), section 2.5: theta_l ~ N(0, tau_l I), tau_l ~ InvGamma(2, 1) independently, y ~ N(f(x; theta), sigma^2),
sigma^2 ~ InvGamma(2, b) with b = `noise_share` times the variance of the training gaps. Of the source it takes the
shape of the network and the descriptor; features and gaps are standardised by the target's training rows alone.
"""

from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import Layers, whiten
from bandgap.networks.perceptron import layers_of
from bandgap.networks.standardise import fit_standardiser
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method, TargetData
from bandgap.transfer.shared.sampled_network import TargetRows, sample_posterior, standardised


@dataclass(frozen=True)
class BnnConfig:
    """Noise and sampler."""

    noise_share: float = 0.2
    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    def __post_init__(self) -> None:
        if not self.noise_share > 0:
            raise ConfigError(f"bnn: noise_share = {self.noise_share}. Accepted: a number above 0.")


def fit(
    source: SourceModel,
    data: TargetData,
    config: BnnConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> NetworkPosterior:
    """Sample all weights and scales given the target's training rows (features (n, p), gaps in eV)."""
    progress(Update("preparing the network"))
    rows = standardised(data, fit_standardiser(data.features, data.gaps_eV))
    centre = [torch.zeros_like(layer) for layer in layers_of(source.params)]
    posterior = sample_around(
        centre,
        rows,
        noise_b=rows.noise_b(config.noise_share),
        sampler=config.sampler,
        seed=seed,
        device=device,
        progress=progress,
        checkpoint=checkpoint,
    )
    return replace(posterior, layer_weights=None, tau=None)


def sample_around(
    centre: Layers,
    rows: TargetRows,
    *,
    noise_b: float,
    sampler: SamplerConfig,
    seed: int,
    device: str,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> NetworkPosterior:
    """Sample theta_l ~ N(centre_l, tau_l I), tau_l ~ InvGamma(2, 1), given training rows."""
    place = choose_device(device)
    net = whiten(centre, rows.x, rows.y, device=place, dtype=torch.float32)
    prior = InverseGammaScales(noise_b, start_factor(centre).to(place))
    return sample_posterior(
        net,
        prior,
        rows.standardiser,
        sampler=sampler,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )


def start_factor(centre: Layers) -> Tensor:
    """Return 1 / (number of inputs) of every layer, (L,): with tau_l about that, activations start of order one."""
    return torch.tensor([1.0 / layer.shape[1] for layer in centre], dtype=torch.float64)


METHOD: Final = Method(
    name="bnn",
    family="without transfer",
    standing="research",
    title="Bayesian network without transfer",
    summary=(
        "Samples all layers of a new network with the labelled crystals only. Shows what a "
        "transfer gains."
    ),
    duration="about 2 minutes for 200 crystals on 2 cores",
    cost=Cost(55, 110, sampler="auto"),
    config=BnnConfig,
    fit=fit,
    resumable=fit,
    new_elements=True,
)
