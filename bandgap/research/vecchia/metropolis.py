"""Metropolis on the complete likelihood (NNGP; Datta et al. 2016), an exact sampler.

Each iteration draws beta ~ N(p4^-1 p3, p4^-1) given theta. It then proposes eta' = eta + N(0, s^2
C), which is accepted by the ratio of likelihood and prior. C is the inverse precision at the mode.
s^2 starts at 2.38^2 / k and is adapted to 30 % acceptance in the warm-up only.

With `independent`, three of four proposals are draws from Student's t at the mode with scale C
(independence sampler; Tierney, 1994). They are accepted by the ratio of density over proposal
density. If the posterior is almost normal, most are accepted, and ESS is about three times as
large. The random walk between them reaches regions that t misses.
"""

from dataclasses import dataclass, replace

import numpy as np

from bandgap.foundation.config import Count, Settings, WholeNumber
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.research.vecchia.chains import Draws, check_thin, run_chains
from bandgap.research.vecchia.engines import can_move
from bandgap.research.vecchia.likelihood import Terms
from bandgap.research.vecchia.ordering import Floats
from bandgap.research.vecchia.scoring import Mode
from bandgap.research.vecchia.target import Target, log_likelihood

ACCEPTANCE = 0.3
# Default number of draws: MIN_DRAWS from FEW_SITES sites on, up to MAX_DRAWS for fewer.
MIN_DRAWS = 400
MAX_DRAWS = 4000
FEW_SITES = 500
RATE = 0.7  # power of the decrease of the adaptation
WALK_EVERY = 4  # every so many proposals is a random walk if the others are independent
FREEDOM = 4.0  # degrees of freedom of Student's t of independent proposals


@dataclass(frozen=True)
class MetropolisConfig(Settings):
    """Chains, warm-up, draws (None: more for fewer sites); every `thin`-th draw is kept.

    `independent`: whether three of four proposals are drawn about the mode instead of the chain's
    state.
    """

    chains: Count = 4
    warmup: WholeNumber = 100
    draws: Count | None = None
    thin: Count = 1
    independent: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thin("metropolis", draws=self.draws or self.thin, thin=self.thin)

    def for_sites(self, n: int) -> "MetropolisConfig":
        """Return the settings with the number of draws for n sites: from 400 to 4,000."""
        n_draws = round(min(MAX_DRAWS, MIN_DRAWS * max(1.0, (FEW_SITES / n) ** 2)))
        return (
            self
            if self.draws is not None
            else replace(self, draws=self.thin * -(-n_draws // self.thin))
        )


@dataclass(eq=False)
class _Walker:
    """State of one chain: position, terms, log scale of its step, and accepted moves."""

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
    """Return draws from the posterior of (eta, beta).

    Starts are draws from the normal approximation at the mode.
    """
    config = config.for_sites(target.sites.n)
    assert config.draws is not None
    k = mode.eta.size
    p = mode.beta.size
    n_draws = config.draws
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

    def step(walker_state: _Walker, iteration: int, rng: np.random.Generator) -> None:
        walker_state.beta = draw_beta(walker_state.terms, rng)
        independent = config.independent and iteration % WALK_EVERY != 0
        if independent:
            noise = rng.standard_normal(k) / np.sqrt(rng.chisquare(FREEDOM) / FREEDOM)
            eta = mode.eta + root @ noise
        else:
            eta = walker_state.eta + np.exp(walker_state.log_scale) * root @ rng.standard_normal(k)
        terms = target.terms_if_any(eta)
        chance = 0.0
        if terms is not None:
            ratio = log_posterior(target, terms, eta, walker_state.beta) - log_posterior(
                target, walker_state.terms, walker_state.eta, walker_state.beta
            )
            if independent:
                ratio += log_proposal(walker_state.eta, mode.eta, root) - log_proposal(
                    eta, mode.eta, root
                )
            chance = float(np.exp(min(ratio, 0.0))) if np.isfinite(ratio) else 0.0
        accepted = rng.random() < chance
        if accepted and terms is not None:
            walker_state.eta = eta
            walker_state.terms = terms
        if iteration >= config.warmup:
            walker_state.moves += accepted
        elif not independent:
            walker_state.log_scale += (chance - ACCEPTANCE) / (iteration + 1) ** RATE

    def advance(
        state: Floats, first: int, last: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        walker_state = walker(state)
        path = np.empty((last - first, k + p))
        for i in range(first, last):
            step(walker_state, i, rng)
            path[i - first] = np.concatenate([walker_state.eta, walker_state.beta])
        return np.concatenate(
            [walker_state.eta, walker_state.beta, [walker_state.log_scale, walker_state.moves]]
        ), path

    start = np.log(2.38 / np.sqrt(k))
    rng = np.random.default_rng([seed, 0x57A7])
    spread = (mode.eta + root @ rng.standard_normal(k) for _ in range(config.chains))
    starts = [eta if target.terms_if_any(eta) is not None else mode.eta for eta in spread]
    states = [np.concatenate([eta, mode.beta, [start, 0.0]]) for eta in starts]
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
    thinned = draws[:, :: config.thin]
    return Draws(
        thinned[..., :k], thinned[..., k:], {"acceptance": float(ends[:, -1].mean() / n_draws)}
    )


def log_posterior(target: Target, terms: Terms, eta: Floats, beta: Floats) -> float:
    """Return the log density of `eta` (k,) given `beta` (p,) and the data, up to a constant.

    `terms` are the terms of the likelihood at `eta`.
    """
    return log_likelihood(terms, beta, n=target.sites.n) + target.log_prior(eta)


def log_proposal(eta: Floats, centre: Floats, root: Floats) -> float:
    """Return the log density at `eta` (k,) of independent proposals, up to a constant.

    It is Student's t with `FREEDOM` degrees of freedom at `centre` (k,) with the scale matrix root
    root^T.
    """
    scores = np.linalg.solve(root, eta - centre)
    return float(-0.5 * (FREEDOM + eta.size) * np.log1p(scores @ scores / FREEDOM))


def draw_beta(terms: Terms, rng: np.random.Generator) -> Floats:
    """Return a draw of beta given theta: N(p4^-1 p3, p4^-1)."""
    lower = np.linalg.cholesky(terms.p4)
    noise = np.linalg.solve(lower.T, rng.standard_normal(terms.p3.size))
    result: Floats = terms.beta_hat + noise
    return result
