"""A Gaussian process on any coordinates, with prediction intervals.

    y = x'beta + Z(s) + e,  Cov Z = sigma2 M(distance / rho),  e ~ N(0, tau2)

Example: a field in the plane, observed at 400 places.

>>> import numpy as np
>>> from bandgap.research.vecchia import gp
>>> rng = np.random.default_rng(0)
>>> places = rng.random((400, 2))
>>> y = np.sin(6 * places[:, 0]) + places[:, 1] + 0.1 * rng.standard_normal(400)
>>> process = gp.fit(places, y, gp.GPConfig(nu=1.5), seed=0)
>>> new = np.array([[0.2, 0.5], [0.8, 0.1]])
>>> low, high = process.predict(new).interval(0.95, kind="latent")
>>> values = np.sin(6 * new[:, 0]) + new[:, 1]
>>> bool(np.all((low < values) & (values < high)))
True

The defaults are the recommendation: Metropolis for few rows, SGRLD in a fixed metric for many.
`GPConfig` describes the samplers for comparison and the free smoothness.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import part_of_checkpoint
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.research.vecchia.chains import Draws
from bandgap.research.vecchia.engines import device_of, sites_on
from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.kriging import Observed, predict
from bandgap.research.vecchia.likelihood import PartOfSites, Sites, Theta, build_blocks
from bandgap.research.vecchia.ordering import Floats, nearest
from bandgap.research.vecchia.sampling import drawn_at_maximum, maximum_by_batches, sample_scales
from bandgap.research.vecchia.scoring import Mode, find_mode
from bandgap.research.vecchia.settings import GPConfig
from bandgap.research.vecchia.target import LogNormal, Priors, Target

__all__ = ["GPConfig", "GaussianProcess", "Prediction", "fit", "typical_scales", "weak_priors"]

ALL_ROWS = 2000  # most rows of which every prediction uses all
SMOOTHNESS = (0.5, 1.5, 2.5)
# Tolerances of step'gradient: ROUGH to choose the smoothness and to expand about, FINE for modes.
ROUGH = 1e-2
FINE = 1e-6
PART_ROWS = 2000  # searches start with so many sites if there are more than twice as many
ROUNDING = 1e-12  # share of the largest observation below which a spread counts as zero
SAMPLE_ROWS = 500  # rows from which typical distances are computed

Interval = Literal["observation", "latent"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Mean and sd of the noise-free value (draw, n) and sd of the noise (draw,)."""

    means: Floats
    sds: Floats
    noise: Floats

    @property
    def mean(self) -> Floats:
        """Mean (n,) of the noise-free value and of an observation."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def latent_sd(self) -> Floats:
        """Standard deviation (n,) of the noise-free value with uncertain parameters."""
        return np.asarray(np.sqrt((self.sds**2).mean(axis=0) + self.means.var(axis=0)))

    def interval(self, level: float, *, kind: Interval) -> tuple[Floats, Floats]:
        """Return the ends (n,) of the central interval of an observation or noise-free value.

        The ends are quantiles of the mixture over draws.

        Parameters
        ----------
        level
            Probability of the interval, in (0, 1).
        kind
            "observation" or "latent", the noise-free value.

        Raises
        ------
        InputError
            If the level is outside (0, 1).
        """
        if not 0 < level < 1:
            raise InputError(f"level {level}. Accepted: a number between 0 and 1.")
        extra = self.noise[:, None] if kind == "observation" else 0.0
        spread = np.maximum(np.hypot(self.sds, extra), 1e-12)
        low, high = mixture_quantiles(self.means, spread, [0.5 - level / 2, 0.5 + level / 2])
        return low, high


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """Observations with draws of theta (chain, draw, 4) and of beta (chain, draw, p)."""

    observed: Observed
    theta: Floats
    beta: Floats
    traces: Draws
    mode: Mode
    nu: float
    predict_from: int

    @property
    def thetas(self) -> list[Theta]:
        """The draws of all chains in one list."""
        return [Theta(*map(float, row)) for row in self.theta.reshape(-1, 4)]

    def predict(self, points: Floats, covariates: Floats | None = None) -> Prediction:
        """Return the prediction at points (n, q).

        Covariates (n, p) are those of the fit, by default an intercept. Raises InputError if the
        numbers of columns differ from those of the fit.
        """
        rows = np.ones((len(points), 1)) if covariates is None else covariates
        if (
            points.shape[1] != self.observed.points.shape[1]
            or rows.shape[1] != self.observed.covariates.shape[1]
        ):
            raise InputError(
                f"points {points.shape} with covariates {rows.shape}: the process was fitted on "
                f"{self.observed.points.shape[1]} coordinates and "
                f"{self.observed.covariates.shape[1]} covariates."
            )
        betas = self.beta.reshape(-1, self.beta.shape[-1])
        kriged = predict(
            self.observed,
            self.thetas,
            betas,
            points,
            rows,
            m=self.predict_from,
            precision_beta=self.traces.precision_beta,
        )
        noise = np.sqrt(self.theta.reshape(-1, 4)[:, 3])
        return Prediction(kriged.mean, np.sqrt(kriged.latent), noise)


def fit(
    points: Floats,
    y: Floats,
    config: GPConfig | None = None,
    *,
    covariates: Floats | None = None,
    priors: Priors | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> GaussianProcess:
    """Fit a Gaussian process to observations.

    A CPU uses `BANDGAP_THREADS` threads, by default one, so draws do not depend on the machine.

    Parameters
    ----------
    points
        Coordinates, (n, q).
    y
        Observations, (n,).
    config
        Settings; default: `GPConfig()`.
    covariates
        Covariates of the trend, (n, p); default: an intercept.
    priors
        Priors of the scales; default: `weak_priors` about `typical_scales`.
    seed
        Seed of all random numbers.
    device
        "cpu", "cuda" or "auto", which is CUDA for batched tensors if there is one, else the CPU.
    progress
        Called with the progress of searches and chains.
    checkpoint
        File from which chains resume.

    Raises
    ------
    InputError
        If values are not finite, lengths differ or the trend explains the observations exactly.
    ConfigError
        If the device does not exist or does not fit the engine.
    """
    config = config or GPConfig()
    torch_device = device_of(config.engine, device)
    points = np.ascontiguousarray(points, dtype=np.float64)
    values = np.asarray(y, dtype=np.float64)
    rows = (
        np.ones((len(values), 1))
        if covariates is None
        else np.ascontiguousarray(covariates, dtype=np.float64)
    )
    exact = config.is_exact(len(values))
    blocks = build_blocks(points, rows, values, m=1 if exact else config.neighbours, seed=seed)
    _refuse_constant(rows, values)
    sites: Sites = (
        DenseSites(points, rows, values)
        if exact
        else sites_on(blocks, config.engine, device=torch_device)
    )
    start = typical_scales(points, rows, values)
    used_priors = priors or weak_priors(start)
    choices = _choices(config)
    targets = [Target(sites, used_priors, nu=nu) for nu in choices]
    starts = [target.eta(start) for target in targets]
    options: dict[str, Any] = {"seed": seed, "progress": progress}
    with few_blas_threads():
        if config.sampler == "sgfs":
            target, mode = _most_probable(
                targets, _maxima(targets, starts, config, **options, checkpoint=checkpoint)
            )
            draws = drawn_at_maximum(mode)
        else:
            target, mode = _mode(targets, starts, config, exact=exact, **options)
            draws = sample_scales(
                blocks, target, mode, config, exact=exact, **options, checkpoint=checkpoint
            )
            draws = replace(draws, warnings=(*far_from_mode(mode), *draws.warnings))
    chains, length = draws.eta.shape[:2]
    draw_rows = (
        np.linspace(0, length - 1, max(1, min(length, config.keep // chains)))
        .round()
        .astype(np.int64)
    )
    theta = np.array([[target.theta(eta) for eta in chain[draw_rows]] for chain in draws.eta])
    observed = Observed(points, rows, values)
    nu = float(np.median(theta[..., 2]))
    predict_from = config.predict_from if len(values) > ALL_ROWS else 0
    beta = draws.beta[:, draw_rows]
    return GaussianProcess(observed, theta, beta, draws, mode, nu, predict_from)


def typical_scales(points: Floats, covariates: Floats, y: Floats) -> Theta:
    """Return starting values of searches from the data.

    The variances are shares of the variance of residuals of a linear trend. The range is three
    times the median distance of nearest neighbours.
    """
    variance = float(_trend_residuals(covariates, y).var()) or 1.0
    sample = points[np.linspace(0, len(points) - 1, min(len(points), SAMPLE_ROWS)).astype(np.int64)]
    neighbour_distances = np.linalg.norm(
        points[nearest(points, sample, 2)] - sample[:, None], axis=-1
    ).max(axis=1)
    distance = float(np.median(neighbour_distances))
    spread = float(np.sqrt(points.var(axis=0).sum()))
    return Theta(0.8 * variance, 3.0 * (distance or spread or 1.0), 1.5, 0.2 * variance)


def weak_priors(scales: Theta) -> Priors:
    """Return log-normal priors about typical scales: variance 4, for the range 1."""
    *_, t = np.log(np.array(scales))
    sigma2, rho = weak_process_priors(scales)
    return Priors(sigma2, rho, LogNormal(0.0, 1.0), LogNormal(t, 4.0))


def weak_process_priors(scales: Theta) -> tuple[LogNormal, LogNormal]:
    """Return the priors of the process's variance and range from `weak_priors`."""
    s, rho, *_ = np.log(np.array(scales))
    return LogNormal(s, 4.0), LogNormal(rho, 1.0)


def far_from_mode(mode: Mode) -> tuple[str, ...]:
    """Return a warning if the search ended far from the mode, else none."""
    if mode.converged or mode.squared_step <= ROUGH:
        return ()
    return (
        f"The search for the most probable scales ended after {mode.iterations} steps, when the "
        f"next one had a length of {np.sqrt(mode.squared_step):.2g} standard deviations: scales "
        "and intervals may be far off. Give a smoothness (nu) instead of 'auto', priors nearer to "
        "the data, or sample by 'metropolis' with a longer warm-up.",
    )


def _trend_residuals(covariates: Floats, y: Floats) -> Floats:
    """Return the residuals (n,) of a linear trend in the covariates."""
    return np.asarray(
        y - covariates @ np.linalg.lstsq(covariates, y, rcond=None)[0], dtype=np.float64
    )


def _refuse_constant(covariates: Floats, y: Floats) -> None:
    """Raise InputError if the covariates explain the observations to rounding."""
    spread = float(_trend_residuals(covariates, y).std())
    largest = float(np.abs(y).max())
    if len(y) > covariates.shape[1] and spread <= ROUNDING * largest:
        raise InputError(
            f"{len(y)} observations up to {largest:.6g} that the trend leaves a standard deviation "
            f"of {spread:.2g} of: they are constant, or covariates explain them to the last digit. "
            "Nothing is left for a process to learn. Give observations that vary, or leave such "
            "covariates out."
        )


def _choices(config: GPConfig) -> tuple[float | None, ...]:
    """Return the values of the smoothness to choose from, None if it is free."""
    if config.nu == "auto":
        return SMOOTHNESS
    return (None,) if config.nu == "free" else (float(config.nu),)


def _mode(
    targets: list[Target],
    starts: list[Floats],
    config: GPConfig,
    *,
    exact: bool,
    seed: int,
    progress: Progress,
) -> tuple[Target, Mode]:
    """Return the most probable target and its mode.

    With many sites the search starts from the modes of a subset of them.
    """
    sites = targets[0].sites
    if not exact and sites.n > 2 * PART_ROWS:
        places = np.random.default_rng([seed, 0x9A27]).choice(sites.n, PART_ROWS, replace=False)
        parts = [replace(target, sites=PartOfSites(sites, np.sort(places))) for target in targets]
        starts = [mode.eta for mode in _modes(parts, starts, progress=progress)]
    target, mode = _most_probable(targets, _modes(targets, starts, progress=progress))
    if exact or config.sampler not in ("auto", "sgrld"):
        phase = "searching the mode of the scales"
        mode = find_mode(target, mode.eta, tolerance=FINE, phase=phase, progress=progress)
    return target, mode


def _maxima(
    targets: list[Target],
    starts: list[Floats],
    config: GPConfig,
    *,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> list[Mode]:
    """Return the end of SGFS for each of the targets, with one checkpoint file each."""
    modes = []
    for i, (target, start) in enumerate(zip(targets, starts, strict=True)):
        part = part_of_checkpoint(checkpoint, i)
        modes.append(
            maximum_by_batches(
                target, start, config.sgfs, seed=seed, progress=progress, checkpoint=part
            )
        )
    return modes


def _modes(targets: list[Target], starts: list[Floats], *, progress: Progress) -> list[Mode]:
    """Return the modes of the targets to the tolerance ROUGH."""
    modes = []
    for target, start in zip(targets, starts, strict=True):
        smoothness = "a free smoothness" if target.nu is None else f"smoothness {target.nu:g}"
        phase = f"searching the scales at {smoothness}"
        modes.append(find_mode(target, start, tolerance=ROUGH, phase=phase, progress=progress))
    return modes


def _most_probable(targets: list[Target], modes: list[Mode]) -> tuple[Target, Mode]:
    """Return the target with the largest evidence by Laplace's approximation, and its mode."""

    def evidence(pair: tuple[Target, Mode]) -> float:
        mode = pair[1]
        volumes = [np.linalg.slogdet(part)[1] for part in (mode.precision, mode.precision_beta)]
        return float(mode.value - 0.5 * sum(volumes))

    return max(zip(targets, modes, strict=True), key=evidence)
