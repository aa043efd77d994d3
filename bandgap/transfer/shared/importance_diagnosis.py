"""What importance sampling of a kernel's scales asks, and what it tells of itself, in figures and in words."""

from bandgap.foundation.errors import ConfigError
from bandgap.inference.gaussian_process.importance import MIN_PROPOSALS, MIN_ROUNDS, ImportanceInfo
from bandgap.posterior import Diagnostics

K_HAT_LIMIT = 0.7  # of the Pareto tail of the weights (Vehtari et al., 2024)
MIN_DRAWS = 8
MIN_ESS = 20.0  # effective draws of the scales


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
