"""Posterior draws of a regression with the horseshoe prior: independent chains and diagnostics.

delta ~ N(0, s2 tau^2 lambda^2), lambda and tau half-Cauchy, sigma^2 ~ InvGamma(0.1, 0.1) (Abba
2023, eqs. 3.2 to 3.4 and 3.22, on the squares: lambda^2 | xi ~ InvGamma(1/2, 1/xi), where appendix
B.1 prints shape 1, which would be a t distribution with two degrees of freedom). The steps of a
chain are in `horseshoe_sweep`.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import Count, Settings
from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import few_blas_threads, with_own_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference import diagnostics
from bandgap.inference.last_layer.coefficient_updates import CoefficientUpdate, update_of
from bandgap.inference.last_layer.horseshoe_sweep import (
    HorseshoeState,
    Line,
    choose_centred,
    line_of,
    sweep,
)
from bandgap.inference.last_layer.noise_variance import NoisePrior, Response
from bandgap.inference.last_layer.reduced_regression import ReducedRegression
from bandgap.priors.horseshoe import LogRange, truncated_log_range

REPORT_EVERY = 25  # sweeps
CHOOSE_FROM = 40  # warm-up sweeps before the first choice of the centred coefficients
CHOOSE_EVERY = 20  # warm-up sweeps between two choices

Floats = NDArray[np.float64]
GlobalScale = Literal["half-Cauchy", "truncated"]


@dataclass(frozen=True)
class HorseshoeConfig(Settings):
    """Length of a run, and prior of the global scale.

    Parameters
    ----------
    chains
        Number of chains.
    warmup, draws
        Sweeps of each chain before and while draws are recorded.
    keep
        Number of stored draws of all chains together.
    global_scale
        Prior of tau: "half-Cauchy", or "truncated" to the half-Cauchy from 1 / p to 1 for p
        coefficients. The paper does not state it; "half-Cauchy" because from 200 labels on the
        errors of both are equal and stored runs have it. With 50 labels "truncated" had the smaller
        error (methods, `last_layer_horseshoe`).
    """

    chains: Count = 4
    warmup: Count = 400
    draws: Count = 1000
    keep: Count = 2000
    global_scale: GlobalScale = "half-Cauchy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chains <= self.keep <= self.chains * self.draws:
            raise ConfigError(
                f"horseshoe: {self.chains} chains, {self.draws} draws, {self.keep} kept. Accepted: "
                "between one and all draws of a chain kept."
            )

    def log_range(self, p: int) -> LogRange:
        """Return the range of log tau for p coefficients, None for any."""
        return truncated_log_range(p) if self.global_scale == "truncated" else None

    @property
    def kept_of_chain(self) -> int:
        """Number of stored draws of each chain."""
        return self.keep // self.chains


@dataclass(frozen=True, eq=False)
class HorseshoeDraws:
    """Stored draws (chain, draw, ...): delta (..., p), noise variance, tau."""

    delta: Floats
    sigma2: Floats
    tau: Floats


@dataclass(frozen=True, eq=False)
class HorseshoeInfo:
    """Figures of all sweeps after warm-up.

    Log tau and log sigma^2 (chain, draw); number of centred coefficients (chain,). `kept_share`
    (chain, p) are means of 1 - kappa_j (`kept_share_of`).
    """

    log_tau: Floats
    log_sigma2: Floats
    n_centred: NDArray[np.int64]
    kept_share: Floats

    def figures(self) -> dict[str, float]:
        """Return R-hat and effective sample sizes of log tau and log sigma.

        Convergence of delta is judged by predictions.
        """
        if self.log_tau.shape[1] < 4:
            return {}
        figures = {}
        for name, values in (("tau", self.log_tau), ("sigma", self.log_sigma2)):
            figures[f"rhat_{name}"] = float(diagnostics.rhat(values[..., None])[0])
            figures[f"ess_{name}"] = float(diagnostics.ess_bulk(values[..., None])[0])
        return figures


def sample_horseshoe(
    problem: ReducedRegression,
    *,
    config: HorseshoeConfig,
    seed: int,
    prior: NoisePrior = NoisePrior(),
    progress: Progress = no_progress,
) -> tuple[HorseshoeDraws, HorseshoeInfo]:
    """Sample delta (p,), p >= 1, the noise variance and the scales.

    The draws of a chain do not depend on the number of chains. Chains run on the engine in use; on
    remote engines a chain reports when it ends. The response should have a standard deviation near
    1, because the prior of the noise has no scale of its own.
    """
    length = config.warmup + config.draws
    is_remote = engine_in_use().remote

    def report(chain: int, done: int) -> None:
        progress(
            Update(
                "sampling the output layer",
                chain * length + done,
                config.chains * length,
                values={"chain": float(chain + 1)},
            )
        )

    tasks = (
        (
            problem,
            config,
            prior,
            np.random.default_rng([seed, chain]),
            None if is_remote else partial(report, chain),
        )
        for chain in range(config.chains)
    )
    results = []
    chain_of = partial(with_own_threads, _run_chain) if is_remote else _run_chain
    with few_blas_threads(), contextlib.closing(mapped(chain_of, tasks, ahead=1)) as runs:
        for chain, result in enumerate(runs):
            results.append(result)
            if is_remote:
                report(chain, length)
    delta, sigma2, log_tau, centred, shares = zip(*results, strict=True)
    stored = np.linspace(0, config.draws - 1, config.kept_of_chain).round().astype(int)
    noise = np.stack(sigma2)
    scale = np.stack(log_tau)
    draws = HorseshoeDraws(np.stack(delta), noise[:, stored], np.exp(scale[:, stored]))
    return draws, HorseshoeInfo(
        scale, np.log(noise), np.array(centred, dtype=np.int64), np.stack(shares)
    )


def kept_share_of(gram_diagonal: Floats, variances: Floats) -> Floats:
    """Return 1 - kappa_j, the share of an estimate that the prior leaves.

    kappa_j = 1 / (1 + G_jj tau^2 lambda_j^2). `variances` are tau^2 lambda^2, `gram_diagonal` is
    the diagonal of X'X in units of the noise variance. These are the shrinkage weights of Carvalho,
    Polson and Scott (2010), section 1, with the data's precision as in Piironen and Vehtari (2017),
    section 2. They do not take correlation of features into account.
    """
    signal = gram_diagonal * variances
    return signal / (1.0 + signal)


def start_state(
    problem: ReducedRegression, rng: np.random.Generator, *, log_range: LogRange = None
) -> HorseshoeState:
    """Return a start with log tau uniform from 2 log(1 / p) - 1 to -1, or in its range."""
    p = problem.moment.size
    log_tau = -float(np.log(p)) * 2.0 * float(rng.random()) - 1.0
    if log_range is not None:
        log_tau = float(rng.uniform(*log_range))
    return HorseshoeState(
        np.zeros(p), max(problem.square / max(problem.n, 1), 1e-12), log_tau, np.ones(p)
    )


class HorseshoeChain:
    """One Markov chain.

    Its warm-up learns which coefficients to centre; then all sweeps follow one fixed rule.
    """

    def __init__(
        self,
        problem: ReducedRegression,
        *,
        prior: NoisePrior = NoisePrior(),
        rng: np.random.Generator,
        log_range: LogRange = None,
    ):
        self.update: CoefficientUpdate = update_of(problem)
        self.state = start_state(problem, rng, log_range=log_range)
        self.line: Line | None = None
        self._moment = problem.moment
        self._response = Response(problem.square, problem.n, prior)
        self._rng = rng
        self._log_range = log_range
        self._n_warmup_sweeps = 0
        self._activity = np.zeros(problem.moment.size)

    @property
    def n_centred(self) -> int:
        return 0 if self.line is None else self.line.centred.size

    def warm_up(self) -> None:
        """Make one sweep and note which coefficients the data determine; only before `step`."""
        if self._n_warmup_sweeps >= CHOOSE_FROM // 2:
            self._activity += kept_share_of(self.update.form.diagonal, self.state.variances)
            if self._n_warmup_sweeps >= CHOOSE_FROM and self._n_warmup_sweeps % CHOOSE_EVERY == 0:
                form = self.update.form
                self.line = line_of(form, choose_centred(self.state, form, self._activity))
        self.step()
        self._n_warmup_sweeps += 1

    def step(self) -> HorseshoeState:
        """Make one sweep, which leaves the posterior invariant."""
        self.state = sweep(
            self.state,
            self.update,
            self._moment,
            self._response,
            line=self.line,
            rng=self._rng,
            log_range=self._log_range,
        )
        return self.state


def _run_chain(
    problem: ReducedRegression,
    config: HorseshoeConfig,
    prior: NoisePrior,
    rng: np.random.Generator,
    report: Callable[[int], None] | None,
) -> tuple[Floats, Floats, Floats, int, Floats]:
    """Run one chain.

    Returns stored draws of delta; noise variance and log tau of every draw; the number of centred
    coefficients; mean shares.
    """
    log_range = config.log_range(problem.moment.size)
    chain = HorseshoeChain(problem, prior=prior, rng=rng, log_range=log_range)
    stored = np.linspace(0, config.draws - 1, config.kept_of_chain).round().astype(int)
    delta = np.empty((stored.size, problem.moment.size))
    sigma2 = np.empty(config.draws)
    log_tau = np.empty(config.draws)
    n_stored = 0
    diagonal = np.diag(problem.gram)
    share = np.zeros(problem.moment.size)
    for i in range(config.warmup + config.draws):
        draw = i - config.warmup
        if draw < 0:
            chain.warm_up()
        else:
            state = chain.step()
            sigma2[draw] = state.sigma2
            log_tau[draw] = state.log_tau
            share += kept_share_of(diagonal, state.variances)
            if n_stored < stored.size and draw == stored[n_stored]:
                delta[n_stored] = state.delta
                n_stored += 1
        if report is not None and (
            (i + 1) % REPORT_EVERY == 0 or i + 1 == config.warmup + config.draws
        ):
            report(i + 1)
    return delta, sigma2, log_tau, chain.n_centred, share / config.draws
