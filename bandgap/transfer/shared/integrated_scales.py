"""Importance sampling of a kernel's scales: its settings, the call, and its diagnostics."""

from typing import Annotated, Protocol, TypeVar

import numpy as np
from annotated_types import Ge

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


Draws = Annotated[int, Ge(MIN_DRAWS)]
Proposals = Annotated[int, Ge(MIN_PROPOSALS)]
Rounds = Annotated[int, Ge(MIN_ROUNDS)]
S = TypeVar("S", bound=ScaleDraws)


class Settings(Protocol):
    """Number of draws of the scales, proposals per round, largest number of rounds."""

    @property
    def draws(self) -> int: ...
    @property
    def proposals(self) -> int: ...
    @property
    def rounds(self) -> int: ...


def integrated(
    start: S, first: Floats, settings: Settings, *, seed: int, progress: Progress = no_progress
) -> S:
    """Return the posterior with draws of its scales, started at the scales `first` (k,)."""
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


def diagnose(info: ImportanceInfo) -> Diagnostics:
    """Return the sampling's figures, and a warning where proposals do not cover the posterior."""
    figures = {"ess_scales": info.ess, "k_hat": info.k_hat, "proposals": float(info.n_proposals)}
    warnings = []
    if not (info.k_hat < K_HAT_LIMIT and info.ess >= MIN_ESS):
        warnings.append(
            "The draws of the kernel's scales do not cover their posterior well (Pareto k "
            f"{info.k_hat:.2f}, want below {K_HAT_LIMIT}; {info.ess:.0f} effective draws, want "
            f"{MIN_ESS:.0f}). Intervals may be too narrow. Raise rounds."
        )
    return Diagnostics(figures, tuple(warnings))
