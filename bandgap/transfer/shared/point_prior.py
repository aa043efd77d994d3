r"""The penalized-complexity prior around the source's weights (`btl_pcp_pe`, `btl_pcp_sg`).

Abba (2023), sections 2.3.3 and 2.4, eqs. 2.6 to 2.8: theta_l ~ N(theta_hat_l, tau c_l I),
c ~ Dirichlet(c0, ..., c0), tau | c, sigma with density lam exp(-lam d(tau)) d'(tau),
d(tau)^2 = mean over training inputs of phi(tau c'alpha(x) / sigma^2), y ~ N(f(x; theta), sigma^2),
sigma^2 ~ InvGamma(2, b) with b = `noise_share` times the variance of the training gaps. alpha_l(x)
is the squared norm of the gradient of f(x) by the weights of layer l.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from bandgap.foundation.config import Positive, ProperShare
from bandgap.networks.perceptron import layer_gradient_norms, layers_of
from bandgap.priors.correlation import OutputVariance, rate_for_correlation
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.method import Scales, TargetData
from bandgap.transfer.shared.sampled_network import Centre, TargetRows, centred, rows_for_source

Rate = Positive | Literal["corr"]


@dataclass(frozen=True)
class PointPriorConfig(Scales):
    """Prior around the source's weights, scales (`recalibration`) and noise.

    Parameters
    ----------
    lam
        Rate of the prior on the distance. "corr" takes the rate at which the network's output has
        the correlation `corr` with a label (`priors.correlation`). The paper has "corr"; 1 because
        it is as accurate and covers better where the source fit has an error.
    corr
        Correlation of the rule "corr".
    c0
        Dirichlet parameter of the layer weights.
    centre
        The source's point estimate or the mean of its variational posterior.
    noise_share
        Mean of the noise variance's prior, as a share of the variance of the training gaps. The
        paper does not state it; 0.2 because the prior has to follow the unit of the gaps, and
        counts as four rows only.
    """

    lam: Rate = 1.0
    corr: ProperShare = 0.5
    c0: Positive = 1.0
    centre: Centre = "point"
    noise_share: Positive = 0.2


@dataclass(frozen=True, eq=False)
class PointPriorProblem:
    """What is sampled.

    Attributes
    ----------
    layers
        The source's layers.
    rows
        Standardised training rows.
    alpha
        Squared gradient norms (n, L).
    lam
        Rate of the prior.
    """

    layers: list[torch.Tensor]
    rows: TargetRows
    alpha: torch.Tensor
    lam: float


def point_prior_problem(
    source: SourceModel, data: TargetData, config: PointPriorConfig, *, seed: int
) -> PointPriorProblem:
    """Return what is sampled, given the training rows (features (n, p), gaps in eV)."""
    source = centred(source, config.centre)
    rows = rows_for_source(source, data, **config.scales)
    alpha = layer_gradient_norms(source.params, rows.x)
    lam = config.lam
    if lam == "corr":
        lam = rate_by_correlation(alpha, corr=config.corr, c0=config.c0, seed=seed)
    return PointPriorProblem(layers_of(source.params), rows, alpha, lam)


def rate_by_correlation(alpha: torch.Tensor, *, corr: float, c0: float, seed: int) -> float:
    """Return the rate by the correlation rule from squared gradient norms alpha (n, L)."""
    n = alpha.shape[0]
    return rate_for_correlation(
        corr,
        alpha,
        alpha.new_full((n,), 1.0 / n),
        OutputVariance(alpha.new_zeros(n), alpha, 1.0),
        c0=c0,
        generator=torch.Generator().manual_seed(seed),
    )
