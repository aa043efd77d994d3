"""Check of the step length: a second run with half the step must have the same moments.

The second run has twice the iterations; lengths of the schedule and the time between prunings are
doubled too, so that both runs are equally long in time. A difference beyond two combined standard
errors gives a warning. Standard errors are those of chain means.

The false-alarm rate is that of a whole run. With q quantities the bound on each is z with 1 -
Phi(z) = (1 - Phi(2)) / q (Bonferroni): 2 for one quantity, 2.61 for five and 3.35 for 57. A run
with a short enough step is warned of in at most about 1 of 20 runs.
"""

from dataclasses import replace

import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.research.stochastic_gradient.gradients import RowTarget
from bandgap.research.stochastic_gradient.outcomes import Draws, Extras, Info, RunConfig
from bandgap.research.stochastic_gradient.protocol import SamplerWarning
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.schedules import stretched

STANDARD_ERRORS = 2.0
LEAST_CHAINS = 4  # fewer give no useful standard errors


def sample_and_halve(
    target: RowTarget,
    sampler: AnyConfig,
    start: Tensor,
    *,
    config: RunConfig,
    seed: int,
    extras: Extras,
    progress: Progress = no_progress,
    checkpoints: tuple[Checkpoint | None, Checkpoint | None] = (None, None),
) -> tuple[Draws, Info]:
    """Run `sample` at the step and at half of it; warn if the means of recorded quantities differ.

    Draws and figures are those of the first run. Warnings of the second run follow, marked as those
    of half the step. Each run resumes from its file in `checkpoints`. Raises ConfigError without
    `extras.record`, or with fewer than `LEAST_CHAINS` chains.
    """
    if extras.record is None or start.shape[0] < LEAST_CHAINS:
        raise ConfigError(
            f"step halving: {start.shape[0]} chains. Accepted: at least {LEAST_CHAINS} chains, and "
            "`record` with the quantities whose means are compared."
        )
    first, second = checkpoints
    settings_warnings = sampler.warnings()  # the first run has reported them
    draws, info = sample(
        target,
        sampler,
        start,
        config=config,
        seed=seed,
        extras=extras,
        progress=progress,
        checkpoint=first,
    )
    half = replace(sampler, step=0.5 * sampler.step)
    longer = replace(
        config,
        warmup=2 * config.warmup,
        draws=2 * config.draws,
        schedule=stretched(config.schedule, 2),
    )
    pruning = extras.pruning and replace(extras.pruning, every=2 * extras.pruning.every)
    extras_of_half = replace(extras, pruning=pruning)

    def report_half(update: Update) -> None:
        progress(replace(update, phase=f"{update.phase} with half the step"))

    half_draws, half_info = sample(
        target,
        half,
        start,
        config=longer,
        seed=seed + 1,
        extras=extras_of_half,
        progress=report_half,
        checkpoint=second,
    )
    half_warnings = tuple(
        replace(warning, text=f"With half the step: {warning.text}")
        for warning in half_info.warnings
        if warning not in settings_warnings
    )
    info = replace(info, warnings=(*info.warnings, *half_warnings))
    assert draws.recorded is not None and half_draws.recorded is not None
    if min(draws.recorded.shape[0], half_draws.recorded.shape[0]) < 2:
        return draws, info  # the other chains diverged, of which a warning tells
    warning = halving_warning(draws.recorded, half_draws.recorded, step=sampler.step)
    return draws, info if warning is None else replace(info, warnings=(*info.warnings, warning))


def halving_warning(at_step: Tensor, at_half: Tensor, *, step: float) -> SamplerWarning | None:
    """Return a warning if means of quantities (chain, draw, q) differ, or None."""
    differences, error = differences_in_errors(at_step, at_half)
    bound = -ndtri(ndtr(-STANDARD_ERRORS) / differences.numel())
    worst = int(differences.abs().argmax())
    if float(differences.abs()[worst]) <= bound:
        return None
    errors = float(differences[worst])
    return SamplerWarning(
        "step too long",
        f"With half the step {step:.3g} the mean of quantity {worst + 1} changes by "
        f"{errors * float(error[worst]):+.3g}, {abs(errors):.1f} standard errors. Shorten the "
        "step until it stays.",
    )


def differences_in_errors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the differences of means (q,) in combined standard errors, and these errors (q,)."""
    means = [values.double().mean(1) for values in (a, b)]
    error = torch.sqrt(sum(m.var(0) / m.shape[0] for m in means))  # type: ignore[arg-type]
    return (means[1].mean(0) - means[0].mean(0)) / error.clamp(min=1e-300), error
