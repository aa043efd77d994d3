"""Section 5.1 of Wang, Deng and Lin (2021): samplers on a density along a bent ridge.

Chains start in the exact law and must stay in it. The steps 0.06 (HAMCMC-SA and HAMCMC) and 0.04
(SGLD) are those of the paper. Its HAMCMC-SA divides drift and noise by their lengths, which samples
another law (`HamcmcSaConfig.normalise`).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.hamcmc import HamcmcConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from benchmarks.studies.bent_density import (
    MOMENTS,
    BentDensity,
    centred_powers,
    exact_draws,
    exact_moments,
)
from benchmarks.studies.study import Fault, Part, Result, Row, Scale, Statement, Study, mean_row

CHAINS = {"smoke": 40, "laptop": 300, "paper": 1000}
# Share of the iterations below.
LENGTH = {"smoke": 0.02, "laptop": 1.0, "paper": 1.0}
NORMALISED_SA = "HAMCMC-SA, normalised steps, step 0.06"
PUBLISHED_HAMCMC = "HAMCMC without taming, step 0.06"
PUBLISHED_SGLD = "SGLD, step 0.04"


@dataclass(frozen=True)
class Setting:
    """A sampler, and its iterations in warm-up and after it."""

    sampler: AnyConfig
    warmup: int
    draws: int


SETTINGS = {
    PUBLISHED_SGLD: Setting(SgldConfig(0.04), 200, 600),
    PUBLISHED_HAMCMC: Setting(HamcmcConfig(0.06, walkers=3, regularise=0.0, tame=False), 0, 600),
    NORMALISED_SA: Setting(
        HamcmcSaConfig(
            0.06,
            memory=3,
            every=1,
            regularise=0.0,
            normalise="normalised steps, not the posterior",
            freeze_after_warmup=False,
        ),
        200,
        600,
    ),
    "SGLD, step 0.0025": Setting(SgldConfig(0.0025), 0, 1600),
    "SGHMC": Setting(SghmcConfig(4e-4, friction=0.1), 0, 1000),
    "HAMCMC-SA": Setting(
        HamcmcSaConfig(0.01, memory=3, regularise=1.0, least_curvature=2.0), 300, 800
    ),
}


def run(scale: Scale, seed: int) -> Result:
    """Compare the moments of every sampler with the exact ones."""
    exact = exact_moments()
    rows = [
        Row(setting=name, method="exact", quantity="moment", value=value)
        for name, value in exact.items()
    ]
    errors: dict[str, float] = {}
    for number, (method, setting) in enumerate(SETTINGS.items()):
        means, diverged = chain_means(setting, scale, seed=1000 * seed + number)
        if diverged:
            errors[method] = math.inf
        if len(means) < 2:
            continue
        relative = []
        for name, column in zip(MOMENTS, means.T, strict=True):
            row = mean_row(column, setting=name, method=method, quantity="moment")
            rows.append(row)
            relative.append(abs(row.value / exact[name] - 1.0))
        errors.setdefault(method, max(relative))
    return Result(
        rows=rows,
        statements=[
            Statement(
                "HAMCMC-SA explores the density better than SGLD and HAMCMC (steps of the paper).",
                [
                    Part(
                        what=f"{NORMALISED_SA} minus {method}",
                        value=errors[NORMALISED_SA] - errors[method],
                        high=0.0,
                    )
                    for method in (PUBLISHED_SGLD, PUBLISHED_HAMCMC)
                ],
            )
        ],
        notes=[
            f"{CHAINS[scale]} chains that start in the exact law. The printed density lacks an "
            "exponential.",
            "The paper shows trajectories and no numbers. Better is read as a smaller largest "
            "relative error of the five moments; it is infinite where a chain diverged.",
            "SGLD with step 0.0025, SGHMC and HAMCMC-SA without the suffix are bandgap's settings.",
        ],
    )


def chain_means(
    setting: Setting, scale: Scale, *, seed: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], int]:
    """Return the means (chain, 5) of the chains that did not diverge, and how many did."""
    chains = CHAINS[scale]
    walkers = setting.sampler.walkers
    generator = torch.Generator().manual_seed(seed)
    start = exact_draws(chains * walkers, generator=generator)
    if walkers > 1:
        start = start.reshape(chains, walkers, 2)
    length = LENGTH[scale]
    draws = max(10, int(length * setting.draws))
    config = RunConfig(int(length * setting.warmup), draws, draws)
    try:
        result, info = sample(
            BentDensity(),
            setting.sampler,
            start,
            config=config,
            seed=seed,
            extras=Extras(centred_powers),
        )
    except DivergedError:
        return np.empty((0, len(MOMENTS))), chains
    assert result.recorded is not None
    return result.recorded.mean(1).numpy(), info.divergences


STUDY = Study(
    name="hamcmc-1",
    title="Samplers on a density along a bent ridge",
    source="Wang, Deng and Lin (2021), section 5.1, figure 1",
    run=run,
    fault=Fault(text="HAMCMC-SA and SGLD swapped", factor=-1.0, method=PUBLISHED_SGLD),
    left_out="the trajectories of figure 1; the paper prints no numbers",
)
