"""Monte-Carlo dropout: fine-tuning and predictions with units switched off at random.

Gal and Ghahramani (2016), the comparison of Abba (2023), section 3.5: dropout with probability p
before the last hidden layer, T = 100 passes. A pass is a mask of that layer's inputs; the remaining
inputs are scaled by 1 / (1 - p). Each pass is stored as one draw of the network, so that
predictions of all structures share their masks. In a network with one hidden layer its own units
are switched off. `noise` "none" is the thesis' interval, quantiles of the passes (61 to 71 %
coverage of 95 % there). "held_out" (default) adds the noise of the rows held out for early
stopping.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.config import AtLeastTwo, ProperShare
from bandgap.networks.perceptron import Params, forward, hidden_features, layer_of, layers_of
from bandgap.networks.standardise import Standardiser
from bandgap.networks.training import TrainingConfig, train
from bandgap.posterior import Diagnostics, NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.point_estimate import ALL_LAYERS, draws_above, start_at_source

# Relative to the gaps' scale. A mixture of normals needs some noise.
NO_NOISE = 1e-6


@dataclass(frozen=True)
class McDropoutConfig(Scales):
    """Scales (`recalibration`), training, dropout probability, number of passes, and noise."""

    dropout: ProperShare = 0.1
    passes: AtLeastTwo = 100
    noise: Literal["held_out", "none"] = "held_out"
    training: TrainingConfig = ALL_LAYERS


def fit(
    source: SourceModel, data: TargetData, config: McDropoutConfig, fitting: Fitting
) -> NetworkPosterior:
    """Fine-tune with dropout on the rows (features (n, p), gaps in eV) and draw the masks."""
    start = start_at_source(source, data, **config.scales, device=fitting.device)
    generator = torch.Generator().manual_seed(fitting.seed)
    layer = dropped_layer(source.network.n_layers)
    width = start.params[f"weight.{layer}"].shape[1]

    def network_with_dropout(params: Params, x: Tensor) -> Tensor:
        """Evaluate the network with a different mask for every row of the batch."""
        below = {name: value for name, value in params.items() if layer_of(name) < layer}
        mask = _mask((x.shape[0], width), config.dropout, generator).to(x.device)
        return _after(params, hidden_features(below, x) * mask, layer=layer)

    trained = train(
        start.params,
        start.x,
        start.y,
        config=config.training,
        generator=generator,
        model=network_with_dropout,
        phase="fine-tuning with dropout",
        progress=fitting.progress,
    )
    params = {name: value.cpu() for name, value in trained.params.items()}
    masks = _mask((config.passes, width), config.dropout, generator)
    sigma = float(np.sqrt(trained.validation_mse)) if config.noise == "held_out" else NO_NOISE
    return masked_posterior(
        params, masks, layer=layer, sigma=sigma, standardiser=start.standardiser, seed=fitting.seed
    )


def dropped_layer(n_layers: int) -> int:
    """Return the layer, counted from 1, whose inputs are dropped.

    It is the last hidden layer, or the output layer of a network with one hidden layer.
    """
    return max(n_layers - 1, 2)


def masked_posterior(
    params: Params,
    masks: Tensor,
    *,
    layer: int,
    sigma: float,
    standardiser: Standardiser,
    seed: int,
) -> NetworkPosterior:
    """Return one draw for every mask (T, width) of the inputs of `layer`."""
    first, *upper_layers = layers_of(params)
    upper = [value.expand(1, len(masks), *value.shape) for value in upper_layers]
    # The bias is not dropped.
    masks_and_bias = torch.cat([masks, torch.ones(len(masks), 1)], 1)
    upper[layer - 2] = upper[layer - 2] * masks_and_bias[None, :, None, :]
    posterior = draws_above(first, upper, sigma=sigma, standardiser=standardiser, seed=seed)
    return replace(
        posterior, diagnostics=Diagnostics({"kept_share": float((masks > 0).double().mean())})
    )


def _mask(shape: tuple[int, int], dropout: float, generator: torch.Generator) -> Tensor:
    return (torch.rand(shape, generator=generator) >= dropout).float() / (1.0 - dropout)


def _after(params: Params, h: Tensor, *, layer: int) -> Tensor:
    """Return the network's values (n,) from the inputs of a layer."""
    upper_params = {
        f"{name.split('.')[0]}.{layer_of(name) - layer + 1}": value
        for name, value in params.items()
        if layer_of(name) >= layer
    }
    return forward(upper_params, h)


METHOD: Final = Method(
    name="mc_dropout",
    family="many trained networks",
    standing="research",
    title="Monte-Carlo dropout",
    summary="Trains all layers with dropout and predicts with a hundred networks drawn that way.",
    references=(
        'Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation: representing model '
        'uncertainty in deep learning", ICML 2016.',
    ),
    duration="seconds",
    cost=Cost(0.5, 1),
    config=McDropoutConfig,
    fit=fit,
    new_elements=True,
)
