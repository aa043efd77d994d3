"""Section 5.1 of Wang, Deng and Lin (2021): samplers on a density along a bent ridge.

Chains start in the exact law and must stay in it. The steps 0.06 (HAMCMC-SA and HAMCMC) and 0.04
(SGLD) are those of the paper. Its HAMCMC-SA divides drift and noise by their lengths, which samples
another law (`HamcmcSaConfig.normalise`).
"""

import numpy as np
import torch
from matplotlib.figure import Figure

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
from benchmarks.studies.study import (
    DRAWN,
    Floats,
    Key,
    Statement,
    Values,
    mean_part,
    study_of,
)

NORMALISED_SA = "HAMCMC-SA, normalised steps, step 0.06"
PUBLISHED_HAMCMC = "HAMCMC without taming, step 0.06"
PUBLISHED_SGLD = "SGLD, step 0.04"
# Samplers, and their iterations in warm-up and after it.
SAMPLERS: dict[str, tuple[AnyConfig, int, int]] = {
    PUBLISHED_SGLD: (SgldConfig(0.04), 200, 600),
    PUBLISHED_HAMCMC: (HamcmcConfig(0.06, walkers=3, regularise=0.0, tame=False), 0, 600),
    NORMALISED_SA: (
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
    "SGLD, step 0.0025": (SgldConfig(0.0025), 0, 1600),
    "SGHMC": (SghmcConfig(4e-4, friction=0.1), 0, 1000),
    "HAMCMC-SA": (
        HamcmcSaConfig(0.01, memory=3, regularise=1.0, least_curvature=2.0),
        300,
        800,
    ),
}
QUANTITY = "moment"


def compute(seed: int, *, chains: int, share: float) -> Values:
    """Return the moments of every chain, and the path of one; NaN where a chain diverged."""
    values: Values = {}
    for method, (config, warmup, draws) in SAMPLERS.items():
        generator = torch.Generator().manual_seed(seed)
        start = exact_draws(chains * config.walkers, generator=generator)
        if config.walkers > 1:
            start = start.reshape(chains, config.walkers, 2)
        length = max(10, int(share * draws))
        run = RunConfig(int(share * warmup), length, 1)
        moments = np.full((chains, len(MOMENTS)), np.nan)
        path = np.empty((0, 2))
        try:
            result, info = sample(
                BentDensity(), config, start, config=run, seed=seed, extras=Extras(centred_powers)
            )
            assert result.recorded is not None
            moments[list(info.chains)] = result.recorded.mean(1).numpy()
            path = result.position[0].numpy()
        except DivergedError:
            pass
        for name, column in zip(MOMENTS, moments.T, strict=True):
            values[Key(name, method, QUANTITY)] = column
        for axis, column in zip(("b1", "b2"), path.T, strict=True):
            values[Key(axis, method, "path", DRAWN)] = column
    for name, value in exact_moments().items():
        values[Key(name, "exact", QUANTITY)] = np.array([value])
    return values


def statements(values: Values) -> list[Statement]:
    """Return whether HAMCMC-SA has the smallest error; it is infinite where a chain diverged."""

    def largest_error(method: str) -> Floats:
        """Return the largest error of the moments in five batches of the chains."""
        errors = [
            np.mean(np.array_split(values[Key(name, method, QUANTITY)], 5), 1) / exact - 1.0
            for name, exact in exact_moments().items()
        ]
        return np.asarray(np.nan_to_num(np.abs(errors), nan=np.inf).max(0))

    return [
        Statement(
            "HAMCMC-SA keeps to the density better than SGLD and HAMCMC (steps of the paper).",
            [
                mean_part(
                    f"{NORMALISED_SA} minus {method}",
                    largest_error(NORMALISED_SA) - largest_error(method),
                )
                for method in (PUBLISHED_SGLD, PUBLISHED_HAMCMC)
            ],
        )
    ]


def draw(figure: Figure, values: Values) -> None:
    """Draw the path of one chain of every sampler (figure 1)."""
    panels = figure.subplots(1, len(SAMPLERS), sharex=True, sharey=True)
    for axes, method in zip(panels, SAMPLERS, strict=True):
        b1, b2 = (values.get(Key(axis, method, "path", DRAWN), ()) for axis in ("b1", "b2"))
        axes.plot(b1, b2, ".", ms=2, alpha=0.5)
        axes.set_title(method.replace(", ", "\n"), fontsize=7)


STUDY = study_of("hamcmc-1", compute, statements=statements, draw=draw)
