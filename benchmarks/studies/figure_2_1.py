"""Figure 2.1 of Abba (2023): the penalized-complexity prior of tau, lam = 1, v = (16, 16, 1)."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import kstest, kstwobign

from bandgap.priors.penalized_complexity import (
    distance,
    log_density,
    prior_draws,
    variational_terms,
)
from benchmarks.studies.study import Key, Statement, Values, mean_part, study_of

LAYER_SIZES = (16, 16, 1)
TERMS = variational_terms(LAYER_SIZES, torch.full((3,), 1.0 / 3.0, dtype=torch.float64))
TOTAL = sum(LAYER_SIZES) / 3.0
FAR = 1e8  # tau at which the tail is compared with its limit
CHANGE = Key("4,001 values of tau", "prior", "largest change of the density to the next tau")
APART = Key("draws", "prior", "largest difference from Exp(lam), times the root of their number")
TAILS = {
    lam: Key(f"lam = {lam:g}, t = {FAR:g}", "prior", "-log P(tau > t) / sqrt(t)")
    for lam in (1.0, 2.0)
}


def compute(seed: int, *, n_draws: int) -> Values:
    """Compute what section 2.3.2 says about the prior."""
    tau = torch.cat([torch.zeros(1), torch.logspace(-8, 8, 4001)]).double()
    generator = torch.Generator().manual_seed(seed)
    draws = distance(prior_draws(TERMS, lam=1.0, generator=generator, size=(n_draws,)), TERMS)
    of_tail = distance(torch.tensor(FAR, dtype=torch.float64), TERMS) / math.sqrt(FAR)
    return {
        CHANGE: log_density(tau, TERMS, lam=1.0).diff().max().numpy(),
        APART: np.array(kstest(draws.numpy(), "expon").statistic * math.sqrt(n_draws)),
        **{key: (lam * of_tail).numpy() for lam, key in TAILS.items()},
    }


def statements(values: Values) -> list[Statement]:
    """Return the statements of the section."""
    limit = float(kstwobign.ppf(0.999))

    def of_tail(lam: float) -> Statement:
        key, root = TAILS[lam], math.sqrt(lam * TOTAL)
        return Statement(
            "The tail is that of a Weibull distribution with shape 1/2 and rate lam times the sum "
            f"of v_l c_l (lam = {lam:g}).",
            [mean_part(key.quantity, values[key], low=0.999 * root, high=1.001 * root)],
            f"this rate r has {root:.4f} in exp(-(r t)^(1/2)); the limit is {lam:g} times "
            f"{math.sqrt(TOTAL):.4f}, so that the rate is lam^2 times the sum",
        )

    return [
        Statement(
            "The density has its mode at 0 and decreases strictly.",
            [mean_part(CHANGE.quantity, values[CHANGE])],
        ),
        Statement(
            "Sampling by numerical inversion gives the density: d(tau) of draws is Exp(lam).",
            [mean_part(APART.quantity, values[APART], high=limit)],
            f"99.9 % of such samples are below {limit:.3f}",
        ),
        *map(of_tail, TAILS),
    ]


def draw(figure: Figure, values: Values) -> None:
    """Draw the density."""
    del values
    tau = torch.linspace(0.0, 3.0, 400, dtype=torch.float64)
    axes = figure.subplots()
    axes.plot(tau, log_density(tau, TERMS, lam=1.0).exp())
    axes.set(xlabel="tau", ylabel="density")


STUDY = study_of("figure-2.1", compute, statements=statements, draw=draw)
