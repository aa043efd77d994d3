"""Importance sampling of a kernel's scales: what it asks, the call, and what it tells of itself in words."""

from typing import Protocol, TypeVar

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.gaussian_process.importance import (
    MIN_PROPOSALS,
    MIN_ROUNDS,
    ImportanceInfo,
    importance_draws,
)
from bandgap.posterior import Diagnostics, Floats
from bandgap.posterior.scale_draws import ScaleDraws

K_HAT_LIMIT = 0.7  # of the Pareto tail of the weights (Vehtari et al., 2024)
MIN_DRAWS = 8
MIN_ESS = 20.0  # effective draws of the scales


S = TypeVar("S", bound=ScaleDraws)


class Settings(Protocol):
    """Draws of the scales that are kept, proposals of a round, most rounds."""

    @property
    def draws(self) -> int: ...
    @property
    def proposals(self) -> int: ...
    @property
    def rounds(self) -> int: ...


def integrated(
    start: S, first: Floats, settings: Settings, *, seed: int, progress: Progress = no_progress
) -> S:
    """Return the posterior with draws of its scales, from the scales `first` (k,), and how well they cover it."""
    theta, info = importance_draws(
        start.problem.log_density,
        first,
        n_draws=settings.draws,
        n_proposals=settings.proposals,
        rounds=settings.rounds,
        log_value=start.problem.log_value,
        rng=np.random.default_rng(seed),
        phase="integrating the kernel's scales",
        progress=progress,
    )
    return start.with_draws(theta, diagnose(info))


def check_settings(method: str, *, draws: int, proposals: int, rounds: int) -> None:
    """Raise ConfigError where there are too few draws that are kept, proposals of a round, or rounds."""
    if draws < MIN_DRAWS or proposals < MIN_PROPOSALS or rounds < MIN_ROUNDS:
        raise ConfigError(
            f"{method}: {draws} draws, {proposals} proposals, {rounds} rounds. Accepted: at least {MIN_DRAWS} draws, "
            f"{MIN_PROPOSALS} proposals and {MIN_ROUNDS} rounds."
        )


def diagnose(info: ImportanceInfo) -> Diagnostics:
    """Say in words when the proposals do not cover the posterior of the scales."""
    figures = {"ess_scales": info.ess, "k_hat": info.k_hat, "proposals": float(info.n_proposals)}
    warnings = []
    if not (info.k_hat < K_HAT_LIMIT and info.ess >= MIN_ESS):
        warnings.append(
            f"The draws of the kernel's scales do not cover their posterior well (Pareto k {info.k_hat:.2f}, want "
            f"below {K_HAT_LIMIT}; {info.ess:.0f} effective draws, want {MIN_ESS:.0f}). Intervals may be too narrow. "
            "Raise rounds."
        )
    return Diagnostics(figures, tuple(warnings))
