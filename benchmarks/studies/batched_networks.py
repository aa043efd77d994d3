"""Many small networks trained and sampled together, one a data set (Abba 2023, A.2 and A.3).

All arrays have the data sets, or chains, as their first axis. A network is a list of layers (set,
out, in + 1) with the bias last. This is an implementation independent of `bandgap.inference`: it
shares the priors' densities with the package, and no sampler. Network and chain know nothing of
each other's data sets, so that a batch gives what single runs give.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.priors.penalized_complexity import DistanceTerms, distance, log_density

Layers = list[Tensor]

ADAM_BETAS = (0.9, 0.999)
ADAM_EPS = 1e-7
ACCEPTANCE = 0.8


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings of A.2; what it does not say is that of `btl_pcp.md`, the validation share 20 %."""

    learning_rate: float = 1e-3
    plateau_factor: float = 0.7
    plateau_epochs: int = 3
    patience: int = 6
    max_epochs: int = 300
    penalty: float = 1e-4  # both of sum |theta| and of sum theta^2
    validation_share: float = 0.2
    batch_sizes: tuple[int, ...] = (16, 32, 64, 128)


def output(layers: Layers, x: Tensor) -> Tensor:
    """Return f(x) (set, n) for inputs (set, n, p)."""
    h = x
    for i, layer in enumerate(layers):
        h = torch.baddbmm(layer[:, None, :, -1], h, layer[:, :, :-1].mT)
        if i < len(layers) - 1:
            h = h.relu()
    return h[..., 0]


def glorot(sets: int, widths: Sequence[int], *, generator: torch.Generator) -> Layers:
    """Draw Glorot-uniform weights with biases of 0."""
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        limit = math.sqrt(6.0 / (inputs + outputs))
        uniform = 2.0 * torch.rand(sets, outputs, inputs, generator=generator) - 1.0
        layers.append(torch.cat([limit * uniform, torch.zeros(sets, outputs, 1)], 2))
    return layers


def train(
    start: Layers,
    x: Tensor,
    y: Tensor,
    *,
    config: Training,
    generator: torch.Generator,
    only_output: bool = False,
) -> Layers:
    """Train by Adam with early stopping; the batch size is that of the least validation error.

    The first rows are held out. Each network has its own learning rate, patience and batch size.
    """
    n_held_out = max(1, round(config.validation_share * y.shape[1]))
    n_training = y.shape[1] - n_held_out
    sizes = sorted({min(size, n_training) for size in config.batch_sizes})
    best: Layers = [layer.clone() for layer in start]
    least = torch.full((len(y),), math.inf)
    for size in sizes:
        layers, validation = _train(
            start,
            x,
            y,
            n_held_out=n_held_out,
            batch_size=size,
            config=config,
            generator=generator,
            first=len(start) - 1 if only_output else 0,
        )
        better = validation < least
        least = torch.where(better, validation, least)
        best = _where(better, layers, best)
    return best


def _train(
    start: Layers,
    x: Tensor,
    y: Tensor,
    *,
    n_held_out: int,
    batch_size: int,
    config: Training,
    generator: torch.Generator,
    first: int,
) -> tuple[Layers, Tensor]:
    """Return the best layers and their validation errors (set,); layers before `first` stay."""
    sets = len(y)
    layers = [layer.clone().requires_grad_(i >= first) for i, layer in enumerate(start)]
    trained = layers[first:]
    moments = [(torch.zeros_like(layer), torch.zeros_like(layer)) for layer in trained]
    rate = torch.full((sets, 1, 1), config.learning_rate)
    best = [layer.clone() for layer in start]
    least = torch.full((sets,), math.inf)
    n_waiting = torch.zeros(sets, dtype=torch.long)
    step = 0
    rows = torch.arange(sets)[:, None]
    for _ in range(config.max_epochs):
        order = n_held_out + torch.rand(sets, y.shape[1] - n_held_out, generator=generator).argsort(
            1
        )
        for batch in torch.split(order, batch_size, 1):
            step += 1
            error = output(layers, x[rows, batch]) - y[rows, batch]
            penalty = sum(
                (layer.abs().sum() + layer.square().sum() for layer in trained), torch.zeros(())
            )
            loss = error.square().mean(1).sum() + config.penalty * penalty
            gradients = torch.autograd.grad(loss, trained)
            with torch.no_grad():
                for layer, gradient, (m, v) in zip(trained, gradients, moments, strict=True):
                    m.lerp_(gradient, 1.0 - ADAM_BETAS[0])
                    v.lerp_(gradient.square(), 1.0 - ADAM_BETAS[1])
                    m_hat = m / (1.0 - ADAM_BETAS[0] ** step)
                    v_hat = v / (1.0 - ADAM_BETAS[1] ** step)
                    layer.sub_(rate * m_hat / (v_hat.sqrt() + ADAM_EPS))
        with torch.no_grad():
            held_out = output(layers, x[:, :n_held_out]) - y[:, :n_held_out]
            validation = held_out.square().mean(1)
            active = n_waiting < config.patience
            better = active & (validation < least)
            least = torch.where(better, validation, least)
            best = _where(better, layers, best)
            n_waiting = torch.where(better, 0, n_waiting + active.long())
            slower = active & (n_waiting > 0) & (n_waiting % config.plateau_epochs == 0)
            rate = torch.where(slower[:, None, None], rate * config.plateau_factor, rate)
        if bool((n_waiting >= config.patience).all()):
            break
    return best, least


@dataclass(frozen=True, eq=False)
class MeanFields:
    """Means and standard deviations of the weights, and noise variances (set,)."""

    mean: Layers
    sd: Layers
    noise_variance: Tensor


def fit_variational(
    start: Layers,
    x: Tensor,
    y: Tensor,
    *,
    generator: torch.Generator,
    epochs: int = 60,
    batch_size: int = 50,
    prior: tuple[Layers, Layers] | None = None,
) -> MeanFields:
    """Maximise the evidence bound with independent normal weights (Blundell et al. 2015).

    `prior` has the means and standard deviations of the weights' prior; by default it is N(0, 2 /
    inputs) for weights and N(0, 1) for biases. The weight of the divergence
    grows to 1 in the first 30 % of the steps; the learning rate falls from 1e-3 to 1e-4 for the
    last 30 %.
    """
    mean = [layer.clone().requires_grad_() for layer in start]
    rho = [torch.full_like(layer, -4.0).requires_grad_() for layer in start]
    log_noise = torch.zeros(len(y), requires_grad=True)
    prior_sd = [torch.full_like(layer, math.sqrt(2.0 / (layer.shape[2] - 1))) for layer in start]
    for layer in prior_sd:
        layer[..., -1] = 1.0
    prior_mean = [torch.zeros_like(layer) for layer in start]
    if prior is not None:
        prior_mean, prior_sd = prior
    optimiser = torch.optim.Adam([*mean, *rho, log_noise], lr=1e-3)
    n = y.shape[1]
    n_steps = epochs * math.ceil(n / batch_size)
    rows = torch.arange(len(y))[:, None]
    step = 0
    for _ in range(epochs):
        order = torch.rand(len(y), n, generator=generator).argsort(1)
        for batch in torch.split(order, batch_size, 1):
            if step >= 0.7 * n_steps:
                optimiser.param_groups[0]["lr"] = 1e-4
            weights = [
                m + r.exp() * torch.randn(m.shape, generator=generator)
                for m, r in zip(mean, rho, strict=True)
            ]
            error = output(weights, x[rows, batch]) - y[rows, batch]
            fit = -log_noise - 0.5 * error.square().mean(1) * torch.exp(-2.0 * log_noise)
            divergence = torch.zeros(())
            for m, r, m0, s in zip(mean, rho, prior_mean, prior_sd, strict=True):
                ratio = (r.exp().square() + (m - m0).square()) / (2.0 * s.square())
                divergence = divergence + (s.log() - r + ratio - 0.5).sum()
            ramp = min(1.0, step / (0.3 * n_steps))
            optimiser.zero_grad()
            loss = ramp * divergence / n - fit.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            step += 1
    return MeanFields(
        [m.detach() for m in mean],
        [r.detach().exp() for r in rho],
        torch.exp(2.0 * log_noise.detach()),
    )


def gradient_norms(layers: Layers, x: Tensor) -> Tensor:
    """Return alpha (set, n, L), the squared norms of the gradient of f by each layer, in float64.

    alpha_l = |g_l|^2 (|h_(l-1)|^2 + 1) with g_l the gradient by the layer's output.
    """
    return torch.stack(
        [(g.square()).sum(2) * (h.square().sum(2) + 1.0) for h, g in _signals(layers, x)], 2
    )


def fisher_information(layers: Layers, x: Tensor, noise_variance: Tensor) -> Layers:
    """Return the diagonal Fisher information of the weights for rows x and noise (set,)."""
    parts = []
    for h, g in _signals(layers, x):
        squares = torch.cat([h.square(), torch.ones_like(h[..., :1])], 2)
        total = g.square().mT @ squares
        parts.append((total / noise_variance.double()[:, None, None]).float())
    return parts


def output_variances(layers: Layers, sds: Layers, x: Tensor) -> Tensor:
    """Return the linearised variance of f (set, n, L) by the weights of each layer."""
    parts = []
    for (h, g), sd in zip(_signals(layers, x), sds, strict=True):
        by_input = h.square() @ sd[:, :, :-1].double().square().mT
        parts.append((g.square() * (by_input + sd[:, None, :, -1].double().square())).sum(2))
    return torch.stack(parts, 2)


def _signals(layers: Layers, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the inputs of each layer and the gradients of f by its outputs, (set, n, width)."""
    h = x.double()
    inputs = []
    active = []
    wide = [layer.double() for layer in layers]
    for layer in wide:
        inputs.append(h)
        z = torch.baddbmm(layer[:, None, :, -1], h, layer[:, :, :-1].mT)
        active.append((z > 0.0).double())
        h = z.relu()
    g = torch.ones_like(h)
    gradients = [g]
    for layer, is_active in zip(reversed(wide[1:]), reversed(active[:-1]), strict=True):
        g = (g @ layer[:, :, :-1]) * is_active
        gradients.append(g)
    return list(zip(inputs, reversed(gradients), strict=True))


@dataclass(frozen=True, eq=False)
class Problem:
    """What is sampled, for every chain.

    Attributes
    ----------
    centre, spread
        theta_l = centre_l + s_l spread_l z_l with z ~ N(0, I); spread None is 1.
    x, y
        Rows (chain, n, p) and labels (chain, n).
    log_prior
        Log density (chain,) of states (chain, 1 + L): log sigma and one coordinate a layer.
    scales
        s (chain, L) of states.
    """

    centre: Layers
    spread: Layers | None
    x: Tensor
    y: Tensor
    log_prior: Callable[[Tensor], Tensor]
    scales: Callable[[Tensor], Tensor]

    def weights(self, z: Layers, state: Tensor) -> Layers:
        """Return theta for whitened weights and states."""
        s = self.scales(state).float()
        units = [z_l if self.spread is None else z_l * self.spread[i] for i, z_l in enumerate(z)]
        return [self.centre[i] + s[:, i, None, None] * unit for i, unit in enumerate(units)]

    def log_posterior(self, z: Layers, state: Tensor) -> Tensor:
        """Return the log posterior (chain,) without the prior of z, up to a constant."""
        error = self.y - output(self.weights(z, state), self.x)
        log_sigma = state[:, 0]
        misfit = 0.5 * error.double().square().sum(1) * torch.exp(-2.0 * log_sigma)
        return self.log_prior(state) - self.y.shape[1] * log_sigma - misfit


def noise_log_density(log_sigma: Tensor, b: Tensor) -> Tensor:
    """Log density of log sigma for sigma^2 ~ InvGamma(2, b)."""
    return -4.0 * log_sigma - b * torch.exp(-2.0 * log_sigma)


def pcp_log_prior(
    slopes: Tensor, weights: Tensor, lam: Tensor, b: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return the penalized-complexity prior of states (log sigma, a), a_l = log(scale c_l).

    `slopes` (chain, J, L) and `weights` (J,) are the terms of the distance, `lam` (chain,) its
    rates. c is uniform on the simplex.
    """

    def log_prior(state: Tensor) -> Tensor:
        log_scale = torch.logsumexp(state[:, 1:], 1)
        log_c = state[:, 1:] - log_scale[:, None]
        rates = (slopes @ log_c.exp()[:, :, None])[..., 0]
        terms = DistanceTerms(weights, rates)
        scale = log_scale.exp()
        # The density at rate lam, from that at rate 1.
        of_scale = log_density(scale, terms, lam=1.0) + (1.0 - lam) * distance(scale, terms)
        return of_scale + log_scale + log_c.sum(1) + noise_log_density(state[:, 0], b)

    return log_prior


def inverse_gamma_log_prior(b: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the prior of states (log sigma, log tau_l) with tau_l ~ InvGamma(2, 1)."""

    def log_prior(state: Tensor) -> Tensor:
        u = state[:, 1:]
        return noise_log_density(state[:, 0], b) - (2.0 * u + torch.exp(-u)).sum(1)

    return log_prior


@dataclass(frozen=True, kw_only=True)
class Chains:
    """Length of the chains and of their paths."""

    warmup: int = 250
    draws: int = 300
    leapfrog: int = 12
    first_step: float = 0.02


@dataclass(frozen=True, eq=False)
class Sampled:
    """Outputs at test rows (draw, chain, n), and acceptance (chain,)."""

    outputs: Tensor
    acceptance: Tensor


def sample(
    problem: Problem,
    x_test: Tensor,
    *,
    start: Tensor,
    chains: Chains,
    generator: torch.Generator,
) -> Sampled:
    """Sample whitened weights and states by Hamiltonian Monte Carlo, every chain with its own step.

    The flow of the normal prior of z is a rotation, which is exact; the likelihood kicks. Steps are
    adapted to an acceptance of 0.8 by dual averaging in warm-up, and varied by 20 %.
    """
    z = [0.3 * torch.randn(layer.shape, generator=generator) for layer in problem.centre]
    state = start.clone()
    value, kicks = _gradient(problem, z, state)
    n = len(state)
    log_step = torch.full((n,), math.log(chains.first_step), dtype=torch.float64)
    averages = torch.zeros(n, dtype=torch.float64)
    mean_log_step = log_step.clone()
    centre = log_step + math.log(10.0)
    outputs = []
    acceptances = []
    for iteration in range(chains.warmup + chains.draws):
        step = torch.exp(log_step if iteration < chains.warmup else mean_log_step)
        step = step * (0.8 + 0.4 * torch.rand(n, generator=generator, dtype=torch.float64))
        velocity = [torch.randn(z_l.shape, generator=generator) for z_l in z]
        pace = torch.randn(state.shape, generator=generator, dtype=torch.float64)
        path = _path(problem, z, state, velocity, pace, kicks, step, chains.leapfrog)
        old = value - _energy(z, velocity, pace)
        new = path.value - _energy(path.z, path.velocity, path.pace)
        probability = torch.nan_to_num(torch.exp((new - old).clamp(max=0.0)), nan=0.0)
        accepted = torch.rand(n, generator=generator, dtype=torch.float64) < probability
        z = _where(accepted, path.z, z)
        kicks = (
            _where(accepted, path.kicks[0], kicks[0]),
            torch.where(accepted[:, None], path.kicks[1], kicks[1]),
        )
        state = torch.where(accepted[:, None], path.state, state)
        value = torch.where(accepted, path.value, value)
        if iteration < chains.warmup:
            k = iteration + 1
            averages += (ACCEPTANCE - probability - averages) / (k + 10.0)
            log_step = centre - math.sqrt(k) / 0.05 * averages
            weight = k**-0.75
            mean_log_step = weight * log_step + (1.0 - weight) * mean_log_step
            continue
        acceptances.append(probability)
        with torch.no_grad():
            outputs.append(output(problem.weights(z, state), x_test))
    return Sampled(torch.stack(outputs), torch.stack(acceptances).mean(0))


@dataclass(frozen=True, eq=False)
class _End:
    """The end of a path."""

    z: Layers
    state: Tensor
    velocity: Layers
    pace: Tensor
    value: Tensor
    kicks: tuple[Layers, Tensor]


def _path(
    problem: Problem,
    z: Layers,
    state: Tensor,
    velocity: Layers,
    pace: Tensor,
    kicks: tuple[Layers, Tensor],
    step: Tensor,
    n_steps: int,
) -> _End:
    wide = step.float()[:, None, None]
    cosine = torch.cos(wide)
    sine = torch.sin(wide)
    value = torch.zeros(len(state))
    for _ in range(n_steps):
        velocity = [v + 0.5 * wide * k for v, k in zip(velocity, kicks[0], strict=True)]
        pace = pace + 0.5 * step[:, None] * kicks[1]
        z, velocity = (
            [cosine * z_l + sine * v for z_l, v in zip(z, velocity, strict=True)],
            [cosine * v - sine * z_l for z_l, v in zip(z, velocity, strict=True)],
        )
        state = state + step[:, None] * pace
        value, kicks = _gradient(problem, z, state)
        velocity = [v + 0.5 * wide * k for v, k in zip(velocity, kicks[0], strict=True)]
        pace = pace + 0.5 * step[:, None] * kicks[1]
    return _End(z, state, velocity, pace, value, kicks)


def _gradient(problem: Problem, z: Layers, state: Tensor) -> tuple[Tensor, tuple[Layers, Tensor]]:
    """Return the log posterior (chain,) and its gradients by z and the states."""
    z = [z_l.detach().requires_grad_() for z_l in z]
    state = state.detach().requires_grad_()
    value = problem.log_posterior(z, state)
    *by_z, by_state = torch.autograd.grad(value.sum(), [*z, state])
    return value.detach(), (list(by_z), by_state)


def _energy(z: Layers, velocity: Layers, pace: Tensor) -> Tensor:
    """Return kinetic energy and minus the log prior of z, (chain,)."""
    squares = [part.double().square().sum((1, 2)) for part in (*z, *velocity)]
    return 0.5 * (torch.stack(squares).sum(0) + pace.square().sum(1))


def _where(condition: Tensor, layers: Layers, other: Layers) -> Layers:
    """Choose layers by data set."""
    wide = condition[:, None, None]
    return [torch.where(wide, a.detach(), b) for a, b in zip(layers, other, strict=True)]


def repeated(layers: Layers, n: int) -> Layers:
    """Return every network n times, copies of one network next to each other."""
    return [layer.repeat_interleave(n, 0) for layer in layers]
