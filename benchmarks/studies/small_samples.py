"""Section 5.2 of Wang, Deng and Lin (2021): a regression with more predictors than rows.

The model is that of `many_predictors`, with steps of the paper: 0.001 for SGLD, 0.1 for HAMCMC and
HAMCMC-SA, whose steps are normalised, which samples another law.
"""

import math

import numpy as np
from matplotlib.figure import Figure

from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.hamcmc import HamcmcConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from benchmarks.studies.many_predictors import made_regression, select
from benchmarks.studies.study import DRAWN, Key, Statement, Values, below, study_of

SETTING = "n = 100, p = 200"
PUBLISHED_SGLD = "SGLD, step 0.001"
PUBLISHED_HAMCMC = "HAMCMC, step 0.1"
PUBLISHED_SA = "HAMCMC-SA, normalised steps, step 0.1"
DISTANCE = "distance of the posterior mean from the true coefficients"
TEST = "mean squared error on test rows"
SELECTED = "mean squared error on test rows, selected predictors"
NUMBER = "selected predictors"
BETA = "coefficients"
SHOWN = 20
TRUTH = "true coefficients"
SAMPLERS: dict[str, AnyConfig] = {
    PUBLISHED_SGLD: SgldConfig(1e-3),
    PUBLISHED_HAMCMC: HamcmcConfig(0.1, walkers=3, regularise=0.0, tame=False),
    PUBLISHED_SA: HamcmcSaConfig(
        0.1,
        memory=3,
        every=1,
        omega=(2.0, 50.0, 0.75),  # of the paper
        regularise=0.0,
        normalise="normalised steps, not the posterior",
        freeze_after_warmup=False,
    ),
    "HAMCMC, tamed, step 0.0001": HamcmcConfig(1e-4, walkers=3),
    "HAMCMC-SA, step 0.001": HamcmcSaConfig(1e-3),
}


def compute(seed: int, *, iterations: int) -> Values:
    """Run all samplers on one data set; errors are infinite where all chains diverged."""
    problem = made_regression(seed=seed + 1)
    residuals = problem.y_test - problem.x_test @ problem.truth
    values = {
        Key(SETTING, TRUTH, TEST): residuals.square().mean().numpy(),
        Key(SETTING, TRUTH, BETA, DRAWN): problem.truth.numpy(),
    }
    for method, config in SAMPLERS.items():
        figures = [math.inf] * 4
        try:
            result = select(problem, config, iterations=iterations, seed=seed)
            values[Key(SETTING, method, BETA, DRAWN)] = result.beta.mean(0).numpy()
            figures = [
                float(part.mean())
                for part in (
                    (result.beta - problem.truth).norm(dim=1),
                    result.full_error,
                    result.test_error,
                    (result.rho > 0.5).double().sum(1),
                )
            ]
        except DivergedError:
            pass
        for what, figure in zip((DISTANCE, TEST, SELECTED, NUMBER), figures, strict=True):
            values[Key(SETTING, method, what)] = np.array(figure)
    return values


def statements(values: Values) -> list[Statement]:
    """Return whether HAMCMC-SA is better than SGLD and HAMCMC."""
    rivals = (PUBLISHED_SGLD, PUBLISHED_HAMCMC)
    return [
        Statement(
            f"HAMCMC-SA {text} SGLD and HAMCMC (steps of the paper).",
            below(values, PUBLISHED_SA, rivals, quantity, [SETTING]),
        )
        for quantity, text in (
            (DISTANCE, "identifies the coefficients better than"),
            (TEST, "has a lower test error than"),
        )
    ]


def draw(figure: Figure, values: Values) -> None:
    """Draw the first posterior means of the first data set over the true ones (figure 2, left)."""
    axes = figure.subplots()
    drawn = (part for part in values.items() if part[0].quantity == BETA)
    for marker, (key, beta) in zip("x+v^so", drawn, strict=False):
        axes.plot(beta[:SHOWN], marker, label=key.method, alpha=0.7)
    axes.set(xlabel="predictor", ylabel="posterior mean")
    axes.legend(fontsize=7)


STUDY = study_of("hamcmc-2", compute, statements=statements, draw=draw)
