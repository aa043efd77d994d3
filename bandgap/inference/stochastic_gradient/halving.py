"""Whether a step is short enough: the same run with half of it, twice as long, must have the same moments.

Twice as long in all that is step_figures in iterations, the schedule's lengths and the time between prunings too, so that both
runs are of the same length in time. A difference beyond two combined standard errors is a typed warning. Standard
errors are those of chain means. The rule is one of the run: with q quantities the bound on each is z with 1 - Phi(z) =
(1 - Phi(2)) / q (Bonferroni), that is 2 for one, 2.61 for five and 3.35 for 57, so that a run with a step that is short
enough is warned of in about 1 of 20 at most, however many quantities are compared.
"""

from dataclasses import replace

import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.stochastic_gradient.gradients import RowTarget
from bandgap.inference.stochastic_gradient.outcomes import Draws, Extras, Info, RunConfig
from bandgap.inference.stochastic_gradient.protocol import SamplerWarning
from bandgap.inference.stochastic_gradient.run import sample
from bandgap.inference.stochastic_gradient.samplers import AnyConfig
from bandgap.inference.stochastic_gradient.schedules import stretched

STANDARD_ERRORS = 2.0
LEAST_CHAINS = 4  # whose means have standard errors


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
    """Run as `sample` does, and again with half the step; a run whose moments differ carries the warning.

    Warnings of the second run come after those of the first, and say that they are of half the step. Each run goes on
    from its file of `checkpoints`. Raises ConfigError without quantities to record, or with fewer than
    `LEAST_CHAINS`.
    """
    if extras.record is None or start.shape[0] < LEAST_CHAINS:
        raise ConfigError(
            f"step halving: {start.shape[0]} chains. Accepted: at least {LEAST_CHAINS} chains, and `record` with the "
            "quantities whose means are compared."
        )
    first, second = checkpoints
    always = sampler.warnings()  # of the settings, which the first run has already said
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
    also = replace(extras, pruning=pruning)

    def shown(update: Update) -> None:
        progress(replace(update, phase=f"{update.phase} with half the step"))

    again, other = sample(
        target,
        half,
        start,
        config=longer,
        seed=seed + 1,
        extras=also,
        progress=shown,
        checkpoint=second,
    )
    of_half = tuple(
        replace(w, text=f"With half the step: {w.text}") for w in other.warnings if w not in always
    )
    info = replace(info, warnings=(*info.warnings, *of_half))
    assert draws.recorded is not None and again.recorded is not None
    if (
        min(draws.recorded.shape[0], again.recorded.shape[0]) < 2
    ):  # the others diverged, which is said
        return draws, info
    found = halving_warning(draws.recorded, again.recorded, step=sampler.step)
    return draws, info if found is None else replace(info, warnings=(*info.warnings, found))


def halving_warning(at_step: Tensor, at_half: Tensor, *, step: float) -> SamplerWarning | None:
    """Compare the means of quantities (chain, draw, q) at a step and at half of it."""
    differences, error = differences_in_errors(at_step, at_half)
    bound = -ndtri(ndtr(-STANDARD_ERRORS) / differences.numel())
    worst = int(differences.abs().argmax())
    if float(differences.abs()[worst]) <= bound:
        return None
    errors = float(differences[worst])
    return SamplerWarning(
        "step too long",
        f"With half the step {step:.3g} the mean of quantity {worst + 1} changes by "
        f"{errors * float(error[worst]):+.3g}, {abs(errors):.1f} standard errors. Shorten the step until it stays.",
    )


def differences_in_errors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the differences of means (q,) in combined standard errors, and these errors (q,)."""
    means = [values.double().mean(1) for values in (a, b)]
    error = torch.sqrt(sum(m.var(0) / m.shape[0] for m in means))  # type: ignore[arg-type]
    return (means[1].mean(0) - means[0].mean(0)) / error.clamp(min=1e-300), error
