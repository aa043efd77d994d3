r"""Mean-field variational posterior of a network's weights on the source task.

q(theta) = prod_k N(m_k, s_k^2) maximises the evidence lower bound (Blundell et al. 2015; Abba 2023,
section 1.1.2)

    ELBO = sum_j E_q[log N(y_j; f(x_j; theta), sigma^2)] - KL(q || p0),
    KL = sum_k log(p_k / s_k) + (s_k^2 + m_k^2) / (2 p_k^2) - 1/2,

p0 = prod_k N(0, p_k^2) with p_k^2 = 2 / fan-in for weights and 1 for biases; sigma^2 is a free
parameter. A transfer uses other normals, and a prior of sigma^2. A step uses a minibatch B of the n
rows, whose likelihood counts n / |B| times, and one draw. The draw is of the pre-activations of
each row, not of the weights (local reparametrisation, Kingma et al. 2015), which reduces the
variance of the gradient. For a layer with input h they are independent
N(h'm + m_b, (h^2)'s^2 + s_b^2).

Weights of a feature that is zero in every row stay at the prior; they are set to it and not fitted.

In a network with many more weights than rows, KL pulls the weights to the prior: mean-field
posteriors then underfit (Trippe and Turner 2018). A weight of KL below 1, a cold posterior (Wenzel
et al. 2020), corrects this; it is the posterior of 1 / weight times as many rows. The best weight
depends on the source, so that a source tries several (`kl_weights_to_try`) and keeps the one with
the smallest held-out error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.config import Count, Positive, Settings, Share
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.adam import Adam
from bandgap.networks.perceptron import Params, forward, layer_of

KL_WEIGHTS = (1.0, 0.3, 0.1)


@dataclass(frozen=True)
class VariationalConfig(Settings):
    """Settings of the variational fit by Adam.

    Parameters
    ----------
    epochs, batch_size
        Number of passes over the rows, and rows in a step.
    learning_rate, final_learning_rate, final_share
        Learning rate, and the one of the last share of the steps.
    ramp_share
        Share of the steps over which the weight of KL rises from 0 to `kl_weight`.
    start_sd
        Standard deviation at the start.
    kl_weight
        Weight of KL. Below 1 it is a cold posterior, that of 1 / kl_weight times as many rows.
    max_steps
        Largest number of steps: the number of epochs is smaller (at least one) if they would need
        more. None for no limit.
    """

    epochs: Count = 60
    batch_size: Count = 50
    learning_rate: Positive = 1e-3
    final_learning_rate: Positive = 1e-4
    final_share: Share = 0.3
    ramp_share: Share = 0.3
    start_sd: Positive = 0.018
    kl_weight: Positive = 1.0
    max_steps: Count | None = None

    def epochs_for(self, n: int) -> int:
        """Return the number of epochs over n rows.

        Examples
        --------
        >>> VariationalConfig().epochs_for(130_000)
        60
        >>> VariationalConfig(max_steps=20_000).epochs_for(130_000)
        7
        """
        if self.max_steps is None:
            return self.epochs
        return min(self.epochs, max(1, self.max_steps // math.ceil(n / self.batch_size)))


def kl_weights_to_try(*, max_steps: int | None = None) -> tuple[VariationalConfig, ...]:
    """Return the default settings with every weight of KL to try for a source."""
    return tuple(VariationalConfig(kl_weight=weight, max_steps=max_steps) for weight in KL_WEIGHTS)


@dataclass(frozen=True, eq=False)
class VariationalFit:
    """A variational posterior.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of every parameter (float32).
    noise_variance
        sigma^2 in squared standardised units.
    elbo
        Bound of every epoch in nats per row with the full KL, with the noise of one draw a step.
    validation_mse
        Mean squared error of f at the means on held-out rows; NaN if there are none.
    kl_weight
        Weight of KL of the config.
    """

    mean: Params
    sd: Params
    noise_variance: float
    elbo: tuple[float, ...] = ()
    validation_mse: float = math.nan
    kl_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class WeightPrior:
    """Independent normals: mean and standard deviation of every parameter."""

    mean: Params
    sd: Params


def fit_variational(
    params: Params,
    x: Tensor,
    y: Tensor,
    *,
    config: VariationalConfig,
    generator: torch.Generator,
    prior: WeightPrior | None = None,
    noise_b: float | None = None,
    phase: str = "variational fit of the source",
    progress: Progress = no_progress,
) -> VariationalFit:
    """Fit q to standardised rows, with means that start at a point estimate.

    Parameters
    ----------
    params
        The point estimate.
    x, y
        Standardised features (n, p) and gaps (n,).
    config, generator
        Settings and random numbers of the fit.
    prior
        Prior of the weights; by default N(0, p_k^2) as above.
    noise_b
        Scale of the prior sigma^2 ~ InvGamma(2, noise_b); sigma is then the mode in log sigma. By
        default sigma maximises the likelihood.

    Raises
    ------
    InputError
        If the bound is not finite.
    """
    prior = prior or _default_prior(params)
    used = (x != 0).any(0)
    rows = x[:, used]
    narrow = WeightPrior(_narrow(prior.mean, used), _narrow(prior.sd, used))
    q = _start(
        _narrow(params, used),
        y - forward(params, x).detach(),
        prior=narrow,
        start_sd=config.start_sd,
    )
    optimiser = Adam(
        {1.0: [*q.mean.values(), *q.log_sd.values(), q.log_noise]}, rate=config.learning_rate
    )
    n = y.shape[0]
    step = 0
    n_epochs = config.epochs_for(n)
    n_steps = n_epochs * math.ceil(n / config.batch_size)
    elbo: list[float] = []
    for epoch in range(n_epochs):
        log_likelihood = 0.0
        for batch in torch.split(torch.randperm(n, generator=generator), config.batch_size):
            if step >= (1 - config.final_share) * n_steps:
                optimiser.rate = config.final_learning_rate
            ramp = min(1.0, step / (config.ramp_share * n_steps)) if config.ramp_share else 1.0
            optimiser.zero_grad()
            fit = log_likelihoods(q, rows[batch], y[batch], generator=generator).mean()
            kl = kl_divergence(q, narrow.sd, centre=narrow.mean)
            loss = ramp * config.kl_weight * kl / n - fit - noise_log_prior(q, noise_b) / n
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            log_likelihood += float(fit.detach()) * batch.shape[0]
            step += 1
        elbo.append((log_likelihood - float(kl.detach())) / n)
        if not math.isfinite(elbo[-1]):
            raise InputError(
                f"variational: the bound is {elbo[-1]} after epoch {epoch + 1}. Features or gaps "
                f"are not finite, or the learning rate of {config.learning_rate} is too large."
            )
        progress(Update(phase, epoch + 1, n_epochs, values={"elbo": elbo[-1]}))
    mean = {name: value.detach() for name, value in q.mean.items()}
    sd = {name: value.detach().exp() for name, value in q.log_sd.items()}
    mean["weight.1"] = _filled(mean["weight.1"], used, prior.mean["weight.1"])
    sd["weight.1"] = _filled(sd["weight.1"], used, prior.sd["weight.1"])
    noise_variance = math.exp(2 * float(q.log_noise.detach()))
    return VariationalFit(mean, sd, noise_variance, tuple(elbo), kl_weight=config.kl_weight)


@dataclass(frozen=True, eq=False)
class MeanField:
    """The parameters of q: means, log standard deviations, and the log of sigma."""

    mean: Params
    log_sd: Params
    log_noise: Tensor


def prior_sds(params: Params) -> dict[str, float]:
    """Return p_k of every parameter tensor: sqrt(2 / fan-in) for weights, 1 for biases."""
    return {
        n: math.sqrt(2.0 / v.shape[-1]) if n.startswith("weight") else 1.0
        for n, v in params.items()
    }


def log_likelihoods(q: MeanField, x: Tensor, y: Tensor, *, generator: torch.Generator) -> Tensor:
    """Return log N(y; f(x; theta), sigma^2) of every row (n,), each for its own draw of theta."""
    h = x
    n_layers = layer_of(max(q.mean, key=layer_of))
    for layer in range(1, n_layers + 1):
        centre = torch.addmm(q.mean[f"bias.{layer}"], h, q.mean[f"weight.{layer}"].T)
        bias_variance = (2 * q.log_sd[f"bias.{layer}"]).exp()
        weight_variance = (2 * q.log_sd[f"weight.{layer}"]).exp()
        variance = torch.addmm(bias_variance, h**2, weight_variance.T)
        noise = torch.randn(centre.shape, generator=generator, dtype=centre.dtype).to(centre.device)
        h = centre + variance.sqrt() * noise
        if layer < n_layers:
            h = torch.relu(h)
    residual = (y - h.squeeze(-1)) * torch.exp(-q.log_noise)
    return -0.5 * residual**2 - q.log_noise - 0.5 * math.log(2 * math.pi)


def kl_divergence(
    q: MeanField, prior: Mapping[str, float | Tensor], *, centre: Mapping[str, Tensor] | None = None
) -> Tensor:
    """Return KL(q || p0) of all parameters in nats, for p0 = N(centre, prior^2) (centre 0)."""
    total = torch.zeros_like(q.log_noise)
    for name, mean in q.mean.items():
        log_sd = q.log_sd[name]
        p = torch.as_tensor(prior[name], dtype=mean.dtype, device=mean.device)
        deviation = mean if centre is None else mean - centre[name]
        squares = ((2 * log_sd).exp() + deviation**2) / (2 * p**2)
        total = total + (squares - log_sd + torch.log(p) - 0.5).sum()
    return total


def noise_log_prior(q: MeanField, b: float | None) -> Tensor:
    """Return the log density of log sigma for sigma^2 ~ InvGamma(2, b), up to a constant.

    It is 0 without a prior (b is None).
    """
    if b is None:
        return torch.zeros_like(q.log_noise)
    return -4.0 * q.log_noise - b * torch.exp(-2.0 * q.log_noise)


def _start(params: Params, residuals: Tensor, *, prior: WeightPrior, start_sd: float) -> MeanField:
    """Return q at the point estimate; its standard deviations are at most those of the prior."""
    log_sd = {
        n: p.clamp(max=start_sd).float().log().requires_grad_(True) for n, p in prior.sd.items()
    }
    mean = {n: v.detach().float().clone().requires_grad_(True) for n, v in params.items()}
    log_noise = residuals.float().std().clamp(min=1e-3).log().requires_grad_(True)
    return MeanField(mean, log_sd, log_noise)


def _default_prior(params: Params) -> WeightPrior:
    sds = prior_sds(params)
    return WeightPrior(
        {name: torch.zeros_like(value) for name, value in params.items()},
        {name: torch.full_like(value, sds[name]) for name, value in params.items()},
    )


def _narrow(params: Params, used: Tensor) -> Params:
    """Return the parameters without the weights of unused features."""
    return {n: v[:, used] if n == "weight.1" else v for n, v in params.items()}


def _filled(weight: Tensor, used: Tensor, prior: Tensor) -> Tensor:
    """Return first-layer values of all features; those of unused features are the prior's."""
    full = prior.to(weight).clone()
    full[:, used] = weight
    return full
