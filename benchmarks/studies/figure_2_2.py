"""Figure 2.2 of Abba (2023), appendix A.1: is the sampled distance of models exponential?

The prior of BTL-PCP-PE uses a first-order expansion of the network. Here tau and c come from the
prior, the weights from N(theta_hat, tau c_l I), and the Kullback-Leibler divergence of the
predictive density from the base model is computed without the expansion. The scaled divergence d
should be exponential with rate lam.

The divergence at an input needs only the distribution of the output there. Given the layer below,
the activations of a layer are independent normal variables with variance tau c_l (|h|^2 + 1), so
they are drawn instead of weights, and the last layer is integrated out: the density of y is a
mixture of M normal densities, integrated on a grid.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bandgap.networks.perceptron import NetworkConfig, init_params, layer_gradient_norms, layers_of
from bandgap.priors.penalized_complexity import point_estimate_terms, prior_draws
from benchmarks.studies.simulated_transfer import Design
from benchmarks.studies.study import DRAWN, Floats, Key, Statement, Values, mean_part, study_of

RATES = (0.5, 1.0, 2.0, 5.0)  # of lam; those of the figure are not in the text
N_INPUTS = 30  # rows of a target data set, the smallest of section 2.4
GRID = 64  # points of the integration over y
PLACES = (NEAR := 0.25, 1.0, 2.0)  # lam d; the first counts as near the origin
HAZARD = "cumulative hazard of d divided by lam d"


def compute(seed: int, *, n_sets: int, n_scales: int, n_draws: int) -> Values:
    """Sample d for every rate; the cumulative hazard is that of all data sets."""
    generator = torch.Generator().manual_seed(seed)
    values: Values = {}
    for lam in RATES:
        sampled = []
        for number in range(n_sets):
            x = torch.from_numpy(
                Design().inputs_of(N_INPUTS, np.random.default_rng([seed, number]))
            )
            params = init_params(NetworkConfig(x.shape[1], (64, 32)), generator=generator)
            c = torch._sample_dirichlet(torch.ones(n_scales, 3).double(), generator=generator)
            terms = point_estimate_terms(layer_gradient_norms(params, x).double(), c)
            tau = prior_draws(terms, lam=lam, generator=generator, size=(n_scales,))
            squares = divergences(layers_of(params), x, tau[:, None] * c, n_draws, generator)
            sampled.append(torch.sqrt(2.0 * squares).numpy())
        d = np.array(sampled)
        for place in PLACES:
            survival = (d > place / lam).mean(1)
            mean = max(float(survival.mean()), 1e-12)
            # Their mean is -log of the mean, their spread that of the first-order error.
            hazard = (1.0 - survival / mean - math.log(mean)) / place
            values[_key(lam, place)] = hazard
        values[Key(f"lam = {lam:g}", "sampled", "d", DRAWN)] = np.sort(d.ravel())
    return values


def divergences(
    layers: Sequence[Tensor], x: Tensor, variances: Tensor, n_draws: int, generator: torch.Generator
) -> Tensor:
    """Return the divergences (tau,) of y from its base model with sigma = 1, mean over inputs.

    `layers` are (out, in + 1), `variances` (tau, layer) those of the weights.
    """
    result = []
    for variance in variances.float():
        h = x.expand(n_draws, -1, -1)
        base = x
        for layer, of_layer in zip(layers, variance, strict=True):
            spread = torch.sqrt(of_layer * (1.0 + h.square().sum(-1, keepdim=True)))
            mean = _affine(layer, h)
            base = _affine(layer, base)
            if layer is not layers[-1]:
                h = (mean + spread * torch.randn(mean.shape, generator=generator)).relu()
                base = base.relu()
        result.append(divergence_of((mean - base)[..., 0], 1.0 + spread[..., 0].square()))
    return torch.stack(result)


def _affine(layer: Tensor, h: Tensor) -> Tensor:
    return h @ layer[:, :-1].T + layer[:, -1]


def divergence_of(means: Tensor, variances: Tensor) -> Tensor:
    """Return KL of a mixture of normals (draw, input) from N(0, 1), mean over inputs."""
    sd = torch.sqrt(variances)
    reach = (means.abs() + 6.0 * sd).max(0).values.clamp(min=6.0)
    # A sinh grid is dense where the base model is and reaches far tails.
    u = torch.linspace(-1.0, 1.0, GRID)[:, None] * torch.asinh(reach)
    y = torch.sinh(u).double()
    cells = torch.cosh(u).double() * torch.asinh(reach) * 2.0 / (GRID - 1)
    z = (y.float()[:, None] - means) / sd
    density = (torch.exp(-0.5 * z.square()) / sd).double().mean(1) / math.sqrt(2.0 * math.pi)
    mass = (density * cells).sum(0)
    log_base = -0.5 * y.square() - 0.5 * math.log(2.0 * math.pi)
    integrand = torch.special.xlogy(density, density) - density * log_base
    divergence: Tensor = (integrand * cells).sum(0) / mass - torch.log(mass)
    return divergence.clamp(min=0.0).mean()


def _key(lam: float, place: float) -> Key:
    return Key(f"lam = {lam:g}, lam d = {place:g}", "sampled", HAZARD)


def statements(values: Values) -> list[Statement]:
    """Return the statements of the text on the hazards."""

    def distance_from_1(lam: float, place: float) -> Floats:
        hazard = values[_key(lam, place)]
        return np.asarray(np.sign(hazard.mean() - 1.0) * (hazard - 1.0))

    return [
        Statement(
            "The approximation holds near the origin for all lam.",
            [
                mean_part(f"lam = {lam:g}", values[_key(lam, NEAR)], low=0.9, high=1.1)
                for lam in RATES
            ],
            f"the hazard is within 10 % of lam at lam d = {NEAR:g}",
        ),
        Statement(
            "It is tighter for the entire distribution for larger values of lam.",
            [
                mean_part(
                    f"lam d = {place:g}: distance from 1, lam = {large:g} minus {small:g}",
                    distance_from_1(large, place) - distance_from_1(small, place),
                )
                for place in PLACES
                for small, large in itertools.pairwise(RATES)
            ],
        ),
    ]


def draw(figure: Figure, values: Values) -> None:
    """Draw the cumulative hazard of all data sets, and lam d."""
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, lam in zip(panels, RATES, strict=True):
        d = values[Key(f"lam = {lam:g}", "sampled", "d", DRAWN)]
        axes.plot(d, -np.log1p(-np.arange(len(d)) / len(d)), ls="--")
        axes.plot(d, lam * d)
        axes.set(title=f"lam = {lam:g}", xlabel="d", xlim=(0, 3 / lam), ylim=(0, 4))
    panels[0].set_ylabel("cumulative hazard")


STUDY = study_of("figure-2.2", compute, statements=statements, draw=draw)
