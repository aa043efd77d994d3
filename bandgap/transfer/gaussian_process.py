"""An exact Gaussian process on the descriptor alone, without transfer.

Rasmussen and Williams (2006), chapters 2 and 5, by scikit-learn's GaussianProcessRegressor: y ~
N(0, v K + s^2 I) in standardised gaps, K a Matern kernel of smoothness 3/2 in the Euclidean
distance of the standardised features. Variance v, length and noise s^2 maximise the marginal
likelihood, from a fixed start and from random ones. They then count as known: the intervals do not
contain their uncertainty.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.optimize import fmin_l_bfgs_b

from bandgap.foundation import citations
from bandgap.foundation.config import Settings, WholeNumber
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, Update
from bandgap.posterior import Diagnostics, Floats, GaussianProcessPosterior
from bandgap.posterior.training_rows import TrainingRows, typical_distance
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData

# Start and bounds. Variances are in units of the gaps' variance, the length in units of the
# typical distance.
VARIANCE = 1.0
VARIANCE_BOUNDS = (1e-2, 1e3)
LENGTH = 2.0
LENGTH_BOUNDS = (0.05, 100.0)
NOISE = 0.1
NOISE_BOUNDS = (1e-4, 4.0)


@dataclass(frozen=True)
class GaussianProcessConfig(Settings):
    """Number of random starts of the search for the kernel's scales, after the fixed one."""

    restarts: WholeNumber = 2


def fit(
    source: SourceModel, data: TargetData, config: GaussianProcessConfig, fitting: Fitting
) -> GaussianProcessPosterior:
    """Fit the kernel's scales to rows (features (n, p), gaps in eV), on the CPU.

    The seed determines the random starts.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

    from bandgap.transfer.shared.distance_kernel import MaternOfDistances

    rows = TrainingRows.of(data.features)
    y_mean = float(data.gaps_eV.mean())
    y_sd = float(data.gaps_eV.std())
    signal = ConstantKernel(VARIANCE, VARIANCE_BOUNDS) * MaternOfDistances(LENGTH, LENGTH_BOUNDS)
    with few_blas_threads(), warnings.catch_warnings():
        # At a bound: variance and length grow together with v / l^3 constant.
        warnings.simplefilter("ignore", ConvergenceWarning)
        distances = rows.own_distances("euclidean")
        typical = typical_distance(distances)
        process = GaussianProcessRegressor(
            signal + WhiteKernel(NOISE, NOISE_BOUNDS),
            optimizer=_search(config.restarts + 1, fitting.progress),
            n_restarts_optimizer=config.restarts,
            random_state=int(np.random.SeedSequence(fitting.seed).generate_state(1)[0]),
        ).fit(distances / typical, (data.gaps_eV - y_mean) / y_sd)
    variance, length, noise = np.exp(process.kernel_.theta)
    return GaussianProcessPosterior(
        rows=rows,
        coefficients=process.alpha_,
        factor=process.L_,
        variance=float(variance),
        length=float(length) * typical,
        noise_variance=float(noise),
        y_mean_eV=y_mean,
        y_sd_eV=y_sd,
        diagnostics=Diagnostics(
            {"log_marginal_likelihood": float(process.log_marginal_likelihood_value_)}
        ),
    )


def _search(starts: int, progress: Progress) -> Callable[..., tuple[Floats, float]]:
    """Return an optimiser that reports scikit-learn's starts and can be cancelled at a step."""
    phase = "fitting the Gaussian process"
    done = 0

    def search(
        objective: Callable[[Floats], tuple[float, Floats]], start: Floats, bounds: Any
    ) -> tuple[Floats, float]:
        nonlocal done

        def step(theta: Floats) -> None:
            progress(Update(phase, done, starts))

        step(start)
        theta, value, _ = fmin_l_bfgs_b(objective, start, bounds=bounds, callback=step)
        done += 1
        progress(Update(phase, done, starts))
        return theta, float(value)

    return search


METHOD: Final = Method(
    name="gaussian_process",
    family="without transfer",
    standing="alternative",
    title="Gaussian process, no transfer",
    summary="An exact Gaussian process on the descriptor, without the source model.",
    references=(citations.GAUSSIAN_PROCESSES,),
    duration="seconds; about 10 for 1,000 crystals, eight times that for twice as many",
    cost=Cost(0.2, 0.5, thousand_s=10, matrices=14),
    config=GaussianProcessConfig,
    fit=fit,
    levels=True,
)
