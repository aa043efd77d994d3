"""Figure 2.1 of Abba (2023): the penalized-complexity prior of tau, lam = 1, v = (16, 16, 1)."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import kstwobign

from bandgap.priors.penalized_complexity import (
    distance,
    log_density,
    prior_draws,
    variational_terms,
)
from benchmarks.studies.figures import COLOURS
from benchmarks.studies.study import Fault, Part, Result, Scale, Statement, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYER_SIZES = (16, 16, 1)
LAM = 1.0
N_DRAWS = {"smoke": 20_000, "laptop": 1_000_000, "paper": 1_000_000}
FAR = 1e8  # tau at which the tail is compared with its limit
TAIL = "-log P(tau > t) / sqrt(t)"


def run(scale: Scale, seed: int) -> Result:
    """Check what section 2.3.2 says about the prior, and draw it."""
    c = torch.full((3,), 1.0 / 3.0, dtype=torch.float64)
    terms = variational_terms(LAYER_SIZES, c)
    tau = torch.cat([torch.zeros(1, dtype=torch.float64), torch.logspace(-8, 8, 4001).double()])
    values = log_density(tau, terms, lam=LAM)
    tail = float(LAM * distance(torch.tensor(FAR, dtype=torch.float64), terms)) / math.sqrt(FAR)
    total = sum(LAYER_SIZES) / 3.0
    limit_of_tail = LAM * math.sqrt(total)
    draws = prior_draws(
        terms,
        lam=LAM,
        generator=torch.Generator().manual_seed(seed),
        size=(N_DRAWS[scale],),
    )
    statistic, limit = _distance_from_exponential(LAM * distance(draws, terms))

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        grid = np.linspace(0.0, 3.0, 400)
        density = log_density(torch.from_numpy(grid), terms, lam=LAM).exp().numpy()
        axes.hist(
            draws[draws < 3.0].numpy(),
            bins=120,
            color=COLOURS[5],
            alpha=0.4,
            density=False,
            weights=np.full(int((draws < 3.0).sum()), 120 / 3.0 / len(draws)),
            label="draws by inversion",
        )
        axes.plot(grid, density, color=COLOURS[0], label="density")
        axes.set(xlabel="tau", ylabel="density")
        axes.legend(frameon=False)

    return Result(
        statements=[
            Statement(
                "The density has its mode at 0 and decreases strictly.",
                [
                    Part(
                        what="largest change to the next tau",
                        value=float(values.diff().max()),
                        high=0,
                    )
                ],
                f"4,001 values of tau from 0 to 1e8; density at 0 is {math.exp(values[0]):.4f}",
            ),
            Statement(
                "Sampling by numerical inversion gives the density: d(tau) of draws is Exp(lam).",
                [Part(what="largest difference of distributions", value=statistic, high=limit)],
                f"{len(draws):,} draws; 99.9 % of such samples are below {limit:.5f}",
            ),
            Statement(
                "The tail is that of a Weibull distribution with shape 1/2.",
                [
                    Part(
                        what=TAIL, value=tail, low=0.999 * limit_of_tail, high=1.001 * limit_of_tail
                    )
                ],
                f"t = {FAR:g}; its limit is {limit_of_tail:.4f}",
            ),
            Statement(
                "Its rate is lam times the sum of v_l c_l.",
                [Part(what=TAIL, value=tail, low=0.999 * LAM * total, high=1.001 * LAM * total)],
                f"that would be {LAM * total:.1f}; it is lam times the square root of the sum. The "
                "printed rate lacks the square root",
            ),
        ],
        draw=draw,
    )


def _distance_from_exponential(values: torch.Tensor) -> tuple[float, float]:
    """Return the Kolmogorov distance of values (n,) from Exp(1), and its 99.9 % quantile."""
    n = len(values)
    probability = -torch.expm1(-values.sort().values)
    rank = torch.arange(n, dtype=torch.float64)
    above = (rank + 1) / n - probability
    below = probability - rank / n
    statistic = float(torch.maximum(above, below).max())
    return statistic, float(kstwobign.ppf(0.999)) / math.sqrt(n)


STUDY = Study(
    name="figure-2.1",
    title="Density of the penalized-complexity prior of the global scale",
    source="Abba (2023), section 2.3.2, figure 2.1",
    run=run,
    fault=Fault(text="the rate 1.1 times too large", factor=1.1),
)
