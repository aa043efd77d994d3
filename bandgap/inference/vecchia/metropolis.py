"""Random-walk Metropolis on the full Vecchia likelihood (NNGP; Datta et al. 2016): exact, the reference of others.

beta ~ N(p4^-1 p3, p4^-1) given theta, then eta' = eta + N(0, s^2 C) accepted by the ratio of likelihood and prior. C is
the inverse precision at the mode; s^2 begins at 2.38^2 / k and is adapted in the warm-up alone, to 30 % acceptance.

With `independent`, three of four proposals are draws from Student's t about the mode with scale C, wherever the chain
is (independence sampler; Tierney, 1994), accepted by the ratio of density over proposal: where the posterior is almost
normal, most are, and give three times the effective draws. The walk between them reaches what t misses.
"""

from dataclasses import dataclass, replace

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.vecchia.chains import Draws, run_chains
from bandgap.inference.vecchia.engines import can_move
from bandgap.inference.vecchia.likelihood import Terms
from bandgap.inference.vecchia.ordering import Floats
from bandgap.inference.vecchia.scoring import Mode
from bandgap.inference.vecchia.target import Target, log_likelihood

ACCEPTANCE = 0.3
LEAST, MOST, FEW_SITES = 400, 4000, 500  # draws, and the sites from which they are the least
RATE = 0.7  # power with which the adaptation slows down
WALK_EVERY = 4  # proposals, where others are independent
FREEDOM = 4.0  # degrees of Student's t of independent proposals


@dataclass(frozen=True)
class MetropolisConfig:
    """Chains, iterations of warm-up and of draws (None: more the fewer sites); every `thin`-th draw is kept.

    `independent`: whether three of four proposals are drawn about the mode, and not about where the chain is.
    """

    chains: int = 4
    warmup: int = 100
    draws: int | None = None
    thin: int = 1
    independent: bool = True

    def __post_init__(self) -> None:
        draws = self.thin if self.draws is None else self.draws
        if min(self.chains, draws, self.thin) < 1 or self.warmup < 0 or draws % self.thin:
            raise ConfigError(
                f"metropolis: {self.chains} chains, {self.warmup} warm-up, {self.draws} draws, thin {self.thin}. "
                "Accepted: whole numbers from 1 (warm-up from 0), draws a multiple of thin."
            )

    def for_sites(self, n: int) -> "MetropolisConfig":
        """Return the same with its draws, 400 from 500 sites on and up to 4,000 where a step is cheap."""
        many = round(min(MOST, LEAST * max(1.0, (FEW_SITES / n) ** 2)))
        return (
            self
            if self.draws is not None
            else replace(self, draws=self.thin * -(-many // self.thin))
        )


@dataclass(eq=False)
class _Walker:
    """One chain: where it is, the terms there, the log of its step's scale, and how often it moved after warm-up."""

    eta: Floats
    beta: Floats
    terms: Terms
    log_scale: float
    moves: float


def sample_metropolis(
    target: Target,
    mode: Mode,
    config: MetropolisConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws from the posterior of (eta, beta); starts are spread about the mode as widely as the posterior."""
    config = config.for_sites(target.sites.n)
    assert config.draws is not None
    k, p, n_draws = mode.eta.size, mode.beta.size, config.draws
    root = np.linalg.cholesky(np.linalg.inv(mode.precision))

    def walker(state: Floats) -> _Walker:
        eta = state[:k]
        return _Walker(
            eta,
            state[k : k + p],
            target.terms(eta, np.zeros(p), derivatives=False),
            state[-2],
            state[-1],
        )

    def step(own: _Walker, iteration: int, rng: np.random.Generator) -> None:
        own.beta = draw_beta(own.terms, rng)
        independent = config.independent and iteration % WALK_EVERY != 0
        if independent:
            noise = rng.standard_normal(k) / np.sqrt(rng.chisquare(FREEDOM) / FREEDOM)
            eta = mode.eta + root @ noise
        else:
            eta = own.eta + np.exp(own.log_scale) * root @ rng.standard_normal(k)
        found, chance = target.terms_if_any(eta), 0.0
        if found is not None:
            ratio = log_posterior(target, found, eta, own.beta) - log_posterior(
                target, own.terms, own.eta, own.beta
            )
            if independent:
                ratio += log_proposal(own.eta, mode.eta, root) - log_proposal(eta, mode.eta, root)
            chance = float(np.exp(min(ratio, 0.0))) if np.isfinite(ratio) else 0.0
        accepted = rng.random() < chance
        if accepted and found is not None:
            own.eta, own.terms = eta, found
        if iteration >= config.warmup:
            own.moves += accepted
        elif not independent:
            own.log_scale += (chance - ACCEPTANCE) / (iteration + 1) ** RATE

    def advance(
        state: Floats, first: int, last: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        own, path = walker(state), np.empty((last - first, k + p))
        for i in range(first, last):
            step(own, i, rng)
            path[i - first] = np.concatenate([own.eta, own.beta])
        return np.concatenate([own.eta, own.beta, [own.log_scale, own.moves]]), path

    start = np.log(2.38 / np.sqrt(k))
    rng = np.random.default_rng([seed, 0x57A7])
    spread = (mode.eta + root @ rng.standard_normal(k) for _ in range(config.chains))
    begun = [eta if target.terms_if_any(eta) is not None else mode.eta for eta in spread]
    states = [np.concatenate([eta, mode.beta, [start, 0.0]]) for eta in begun]
    progress(Update("sampling the covariance", 0, config.warmup + n_draws))
    draws, ends = run_chains(
        np.array(states),
        advance,
        config.warmup,
        n_draws,
        seed=seed,
        settings=config,
        problem=(target, mode),
        movable=can_move(target.sites),
        progress=progress,
        checkpoint=checkpoint,
    )
    kept = draws[:, :: config.thin]
    return Draws(kept[..., :k], kept[..., k:], {"acceptance": float(ends[:, -1].mean() / n_draws)})


def log_posterior(target: Target, terms: Terms, eta: Floats, beta: Floats) -> float:
    """Return the log density of `eta` (k,) given `beta` (p,) and the data, without its constant.

    `terms` are the terms of the likelihood at `eta`.
    """
    return log_likelihood(terms, beta, n=target.sites.n) + target.log_prior(eta)


def log_proposal(eta: Floats, centre: Floats, root: Floats) -> float:
    """Return the log density at `eta` (k,) of independent proposals, without its constant.

    It is Student's t with `FREEDOM` degrees of freedom at `centre` (k,) with the scale matrix root root^T.
    """
    scores = np.linalg.solve(root, eta - centre)
    return float(-0.5 * (FREEDOM + eta.size) * np.log1p(scores @ scores / FREEDOM))


def draw_beta(found: Terms, rng: np.random.Generator) -> Floats:
    """Return a draw of beta given theta: N(p4^-1 p3, p4^-1)."""
    lower = np.linalg.cholesky(found.p4)
    noise = np.linalg.solve(lower.T, rng.standard_normal(found.p3.size))
    result: Floats = found.beta_hat + noise
    return result
