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
TAIL = Key(f"t = {FAR:g}", "prior", "-log P(tau > t) / sqrt(t)")


def compute(seed: int, *, n_draws: int) -> Values:
    """Compute what section 2.3.2 says about the prior."""
    tau = torch.cat([torch.zeros(1), torch.logspace(-8, 8, 4001)]).double()
    generator = torch.Generator().manual_seed(seed)
    draws = distance(prior_draws(TERMS, lam=1.0, generator=generator, size=(n_draws,)), TERMS)
    of_tail = distance(torch.tensor(FAR, dtype=torch.float64), TERMS) / math.sqrt(FAR)
    return {
        CHANGE: log_density(tau, TERMS, lam=1.0).diff().max().numpy(),
        APART: np.array(kstest(draws.numpy(), "expon").statistic * math.sqrt(n_draws)),
        TAIL: of_tail.numpy(),
    }


def statements(values: Values) -> list[Statement]:
    """Return the statements of the section."""
    limit = float(kstwobign.ppf(0.999))
    root = math.sqrt(TOTAL)
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
        Statement(
            "The tail is that of a Weibull distribution with shape 1/2 and rate lam times the sum "
            "of v_l c_l.",
            [mean_part(TAIL.quantity, values[TAIL], low=0.999 * root, high=1.001 * root)],
            f"lam = 1, t = {FAR:g}: the limit is {root:.4f} where the rate r is that of "
            "exp(-(r t)^(1/2)); for another lam it is lam^2 times the sum",
        ),
    ]


def draw(figure: Figure, values: Values) -> None:
    """Draw the density."""
    del values
    tau = torch.linspace(0.0, 3.0, 400, dtype=torch.float64)
    axes = figure.subplots()
    axes.plot(tau, log_density(tau, TERMS, lam=1.0).exp())
    axes.set(xlabel="tau", ylabel="density")


STUDY = study_of("figure-2.1", compute, statements=statements, draw=draw)
