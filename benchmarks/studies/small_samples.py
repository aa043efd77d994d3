"""Section 5.2 of Wang, Deng and Lin (2021): a regression with more predictors than rows.

The model is that of `many_predictors`, with steps of the paper: 0.001 for SGLD, 0.1 for HAMCMC and
HAMCMC-SA, whose steps are normalised, which samples another law. Chains of a data set are a batch.
"""

import math
from dataclasses import dataclass

import numpy as np

from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.hamcmc import HamcmcConfig
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from benchmarks.studies.many_predictors import Regression, made_regression, select
from benchmarks.studies.study import (
    Part,
    Result,
    Row,
    Scale,
    Statement,
    Study,
    mean_part,
    mean_row,
)

CHAINS = 4
PUBLISHED_SGLD = "SGLD, step 0.001"
PUBLISHED_HAMCMC = "HAMCMC, step 0.1"
PUBLISHED_SA = "HAMCMC-SA, normalised steps, step 0.1"
DISTANCE = "distance of the posterior mean from the true coefficients"
TEST = "mean squared error on test rows"
SELECTED = "mean squared error on test rows, selected predictors"
NUMBER = "selected predictors"
QUANTITIES = (DISTANCE, TEST, SELECTED, NUMBER)


@dataclass(frozen=True, kw_only=True)
class Size:
    """Data sets, and iterations of every chain; the means are over their second half."""

    n_sets: int
    iterations: int


SIZES = {
    "smoke": Size(n_sets=2, iterations=100),
    "laptop": Size(n_sets=4, iterations=2500),
    "paper": Size(n_sets=20, iterations=20_000),
}
# The paper's omega of this section.
OMEGA = (2.0, 50.0, 0.75)
SETTINGS: dict[str, AnyConfig] = {
    PUBLISHED_SGLD: SgldConfig(1e-3),
    PUBLISHED_HAMCMC: HamcmcConfig(0.1, walkers=3, regularise=0.0, tame=False),
    PUBLISHED_SA: HamcmcSaConfig(
        0.1,
        memory=3,
        every=1,
        omega=OMEGA,
        regularise=0.0,
        normalise="normalised steps, not the posterior",
        freeze_after_warmup=False,
    ),
    "HAMCMC, tamed, step 0.0001": HamcmcConfig(1e-4, walkers=3),
    "HAMCMC-SA, step 0.001": HamcmcSaConfig(1e-3),
}


def run(scale: Scale, seed: int) -> Result:
    """Run all samplers on all data sets."""
    size = SIZES[scale]
    problems = [made_regression(seed=1000 * seed + number + 1) for number in range(size.n_sets)]
    rows: list[Row] = []
    # Distance and test error of every data set (set, 2); infinite where all chains diverged.
    errors: dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]] = {}
    diverged_of: dict[str, int] = {}
    for method, config in SETTINGS.items():
        figures = []
        diverged_of[method] = 0
        errors[method] = np.full((size.n_sets, 2), math.inf)
        for number, problem in enumerate(problems):
            values, diverged = figures_of(problem, config, size, seed=seed + number)
            diverged_of[method] += diverged
            if values is not None:
                figures.append(values)
                errors[method][number] = values[:2]
        if len(figures) < 2:
            continue
        table = np.array(figures)
        for quantity, column in zip(QUANTITIES, table.T, strict=True):
            rows.append(
                mean_row(column, setting="n = 100, p = 200", method=method, quantity=quantity)
            )
    truth = [
        float((problem.y_test - problem.x_test @ problem.truth).square().mean())
        for problem in problems
    ]
    return Result(
        rows=rows,
        statements=[
            Statement(
                f"HAMCMC-SA {text} SGLD and HAMCMC (steps of the paper).",
                [_difference(name, errors, column) for name in (PUBLISHED_SGLD, PUBLISHED_HAMCMC)],
            )
            for column, text in enumerate(
                ("identifies the coefficients better than", "has a lower test error than")
            )
        ],
        notes=[
            f"{size.n_sets} data sets, {CHAINS} chains of {size.iterations:,} iterations with all "
            "rows, means over the second half. The paper shows figures of one data set and no "
            "numbers.",
            f"The true coefficients have a test error of {np.mean(truth):.2f}.",
            "Samplers with another step are bandgap's forms.",
            "Diverged chains: "
            + "; ".join(f"{method}: {number}" for method, number in diverged_of.items() if number)
            + f", of {CHAINS * size.n_sets}.",
        ],
    )


def _difference(
    name: str, errors: dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]], column: int
) -> Part:
    """Return HAMCMC-SA minus a sampler; infinite where all chains of either diverged."""
    what = f"{PUBLISHED_SA} minus {name}"
    with np.errstate(invalid="ignore"):  # inf - inf
        difference = (errors[PUBLISHED_SA] - errors[name])[:, column]
    if np.isfinite(difference).all():
        return mean_part(what, difference)
    # Better only where just the other diverged on all data sets.
    return Part(what=what, value=-math.inf if (difference < 0).all() else math.inf, high=0.0)


def figures_of(
    problem: Regression, config: AnyConfig, size: Size, *, seed: int
) -> tuple[list[float] | None, int]:
    """Return the mean figures of the chains that did not diverge, and how many did."""
    try:
        result = select(
            problem, chains=CHAINS, iterations=size.iterations, sampler=config, seed=seed
        )
    except DivergedError:
        return None, CHAINS
    distance = (result.beta - problem.truth).norm(dim=1).mean()
    values = (
        distance,
        result.full_error.mean(),
        result.test_error.mean(),
        (result.rho > 0.5).double().sum(1).mean(),
    )
    return [float(value) for value in values], len(result.diverged)


STUDY = Study(
    name="hamcmc-2",
    title="Samplers on a regression with more predictors than rows",
    source="Wang, Deng and Lin (2021), section 5.2, figure 2",
    run=run,
    left_out="the figures themselves; the paper prints no numbers",
)
