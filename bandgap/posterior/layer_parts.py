r"""The part of each layer in the correction that a transfer makes to the source's network.

f_S is the network of one draw whose layers in the set S have the drawn weights and whose other
layers have the source's. The correction of a structure, f_all - f_none, is the sum over layers of

    phi_l = sum_{S without l} |S|! (L - |S| - 1)! / L!  (f_{S and l} - f_S)

which is the mean over all orders in which the layers can be changed (Shapley, 1953). Held-out gaps
y ask for the correction r = y - f_none. The part of layer l in eV is

    s_l = sum_i w_i r_i phi_l,i / sqrt(sum_i w_i r_i^2)

with weights w of sum 1: of the root mean square of r, what layer l makes. As the method did not
learn from y, s has mean 0 where only noise was learned. The interval covers the draws and, by
weights of a Bayesian bootstrap (Rubin, 1981) for each draw, the choice of held-out structures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.networks.perceptron import Params, layers_of
from bandgap.posterior.mixture import PosteriorMixture
from bandgap.posterior.network import NetworkPosterior
from bandgap.posterior.protocol import Floats, Posterior

MOST_DRAWS = 100  # of each chain
MOST_ROWS = 400
LEVEL = 0.95


@dataclass(frozen=True)
class LayerCorrection:
    """What held-out gaps ask for and what the transfer makes of it, in eV.

    `made_eV` and every entry of `layers_eV` have the mean and both ends of the 95 % interval.
    """

    needed_eV: float
    made_eV: tuple[float, float, float]
    layers_eV: tuple[tuple[float, float, float], ...]


def layer_correction(
    posterior: Posterior,
    sources: Sequence[Params],
    features: NDArray[np.floating],
    gaps_eV: Floats,
    *,
    seed: int,
) -> LayerCorrection | None:
    """Return the correction of held-out structures by layer.

    Parameters
    ----------
    posterior
        The posterior of a network with layer weights, or a mixture of such; others have no result.
    sources
        Weights of the network that each member started from.
    features, gaps_eV
        Raw features (n, p) and known gaps (n,) of structures that were not learned from.
    seed
        Seed of the bootstrap.
    """
    members = posterior.members if isinstance(posterior, PosteriorMixture) else (posterior,)
    if len(sources) != len(members) or not len(gaps_eV):
        return None
    rows = np.linspace(0, len(gaps_eV) - 1, min(len(gaps_eV), MOST_ROWS)).round().astype(np.int64)
    generator = np.random.default_rng(seed)
    roots = []
    parts = []
    for member, params in zip(members, sources, strict=True):
        if not isinstance(member, NetworkPosterior) or member.layer_weights is None:
            return None
        layers = layers_of(params)
        outputs_eV = subset_outputs_eV(member, layers, features[rows])
        wanted_eV = gaps_eV[rows] - outputs_eV[0, 0]
        phi = np.einsum("ls,dsn->dln", shapley_weights(len(layers)), outputs_eV)
        w = generator.dirichlet(np.ones(len(rows)), size=len(phi))  # (draw, n)
        root = np.sqrt(w @ wanted_eV**2)
        parts.append(np.einsum("dn,dln->dl", w * wanted_eV, phi) / root[:, None])
        roots.append(root)
    layer_draws = np.concatenate(parts)
    return LayerCorrection(
        float(np.concatenate(roots).mean()),
        _interval(layer_draws.sum(axis=1)),
        tuple(_interval(draws) for draws in layer_draws.T),
    )


def subset_outputs_eV(
    posterior: NetworkPosterior, layers: Sequence[Tensor], features: NDArray[np.floating]
) -> Floats:
    """Return f_S(x) in eV, (draw, 2^L, n), for evenly spaced draws of all chains.

    Bit l of the number of a set tells whether layer l has the drawn weights.
    """
    x = posterior.standardiser.features(features)
    inputs = torch.from_numpy(np.hstack([x, np.ones((len(x), 1))])).float()
    first = posterior.first_layer(inputs)
    of_source = inputs @ layers[0].float().T
    n_draws = min(posterior.n_draws, MOST_DRAWS)
    draws = np.linspace(0, posterior.n_draws - 1, n_draws).round().astype(int)
    outputs = []
    for chain in range(posterior.n_chains):
        for draw in draws.tolist():
            pre = torch.stack([of_source, first(chain, draw)])
            for layer, drawn in zip(layers[1:], posterior.upper, strict=True):
                h = torch.nn.functional.pad(torch.relu(pre), (0, 1), value=1.0)
                pre = torch.cat([h @ layer.float().T, h @ drawn[chain, draw].T])
            outputs.append(pre.squeeze(-1))
    return posterior.standardiser.gaps_eV(torch.stack(outputs).double().numpy())


def shapley_weights(n_layers: int) -> Floats:
    """Return the matrix (L, 2^L) from the outputs of all sets of layers to the layers' parts.

    >>> shapley_weights(2).tolist()
    [[-0.5, 0.5, -0.5, 0.5], [-0.5, -0.5, 0.5, 0.5]]
    """
    weights = np.zeros((n_layers, 2**n_layers))
    for subset in range(2**n_layers):
        size = subset.bit_count()
        for layer in range(n_layers):
            if not subset >> layer & 1:
                weight = factorial(size) * factorial(n_layers - size - 1) / factorial(n_layers)
                weights[layer, subset] -= weight
                weights[layer, subset | 1 << layer] += weight
    return weights


def _interval(draws: Floats) -> tuple[float, float, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(draws.mean()), float(low), float(high)
