"""A Gaussian process on any coordinates: fit its scales with their uncertainty, predict with intervals (`bandgap.gp`).

    y = x'beta + Z(s) + e,  Cov Z = sigma2 M(distance / rho),  e ~ N(0, tau2)

A field in the plane, observed at 400 places:

>>> import numpy as np
>>> from bandgap import gp
>>> rng = np.random.default_rng(0)
>>> places = rng.random((400, 2))
>>> y = np.sin(6 * places[:, 0]) + places[:, 1] + 0.1 * rng.standard_normal(400)
>>> found = gp.fit(places, y, gp.GPConfig(nu=1.5), seed=0)
>>> new = np.array([[0.2, 0.5], [0.8, 0.1]])
>>> low, high = found.predict(new).interval(0.95, kind="latent")
>>> bool(np.all((low < np.sin(6 * new[:, 0]) + new[:, 1]) & (np.sin(6 * new[:, 0]) + new[:, 1] < high)))
True

Metropolis (few rows) and SGRLD in a frozen metric (many) are recommended, and taken by default. `GPConfig(sampler=...)`
has others for comparison, "sgrld_published", "sgfs" and the first-order "sgld" to "hamcmc_sa", and `nu="free"` samples
the smoothness.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import part_of_checkpoint
from bandgap.inference.vecchia.chains import Draws
from bandgap.inference.vecchia.engines import device_of, sites_on
from bandgap.inference.vecchia.exact import DenseSites
from bandgap.inference.vecchia.kriging import Observed, predict
from bandgap.inference.vecchia.likelihood import PartOfSites, Sites, Theta, build_blocks
from bandgap.inference.vecchia.ordering import Floats, nearest
from bandgap.inference.vecchia.sampling import drawn_at_maximum, maximum_by_batches, sample_scales
from bandgap.inference.vecchia.scoring import Mode, find_mode
from bandgap.inference.vecchia.settings import GPConfig
from bandgap.inference.vecchia.target import LogNormal, Priors, Target
from bandgap.predictions.mixtures import mixture_quantiles

__all__ = ["GPConfig", "GaussianProcess", "Prediction", "fit", "typical_scales", "weak_priors"]

ALL_ROWS = 2000  # up to which every prediction is given all rows
SMOOTHNESS = (0.5, 1.5, 2.5)
ROUGH, FINE = (
    1e-2,
    1e-6,
)  # of step'gradient; rough where smoothness is chosen and about which chains expand
PART_ROWS = 2000  # sites by which searches begin where there are more than twice as many
ROUNDING = 1e-12  # of the largest observation: a spread that is none
SAMPLE_ROWS = 500  # of which typical distances are taken

Interval = Literal["observation", "latent"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Mean and sd of the noise-free value (draw, n), and the noise's sd (draw,), one row a draw of the parameters."""

    means: Floats
    sds: Floats
    noise: Floats

    @property
    def mean(self) -> Floats:
        """Mean (n,) of the noise-free value and of an observation."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def latent_sd(self) -> Floats:
        """Standard deviation (n,) of the noise-free value, the parameters' uncertainty included."""
        return np.asarray(np.sqrt((self.sds**2).mean(axis=0) + self.means.var(axis=0)))

    def interval(self, level: float, *, kind: Interval) -> tuple[Floats, Floats]:
        """Return the ends (n,) of the central interval of an observation, or of the noise-free ("latent") value.

        Quantiles of the mixture over draws. Raises InputError on a level outside (0, 1).
        """
        if not 0 < level < 1:
            raise InputError(f"level {level}. Accepted: a number between 0 and 1.")
        extra = self.noise[:, None] if kind == "observation" else 0.0
        spread = np.maximum(np.hypot(self.sds, extra), 1e-12)
        low, high = mixture_quantiles(self.means, spread, [0.5 - level / 2, 0.5 + level / 2])
        return low, high


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """What was observed, draws of theta (chain, draw, 4) and beta (chain, draw, p), figures and warnings."""

    observed: Observed
    theta: Floats
    beta: Floats
    traces: Draws
    mode: Mode
    nu: float
    predict_from: int

    @property
    def thetas(self) -> list[Theta]:
        """The draws one after the other."""
        return [Theta(*map(float, row)) for row in self.theta.reshape(-1, 4)]

    def predict(self, points: Floats, covariates: Floats | None = None) -> Prediction:
        """Return the prediction at points (n, q); covariates (n, p) as in the fit, an intercept where there were none.

        Raises InputError where they have other columns.
        """
        rows = np.ones((len(points), 1)) if covariates is None else covariates
        if (
            points.shape[1] != self.observed.points.shape[1]
            or rows.shape[1] != self.observed.covariates.shape[1]
        ):
            raise InputError(
                f"points {points.shape} with covariates {rows.shape}: the process was fitted on "
                f"{self.observed.points.shape[1]} coordinates and {self.observed.covariates.shape[1]} covariates."
            )
        betas = self.beta.reshape(-1, self.beta.shape[-1])
        found = predict(
            self.observed,
            self.thetas,
            betas,
            points,
            rows,
            m=self.predict_from,
            precision_beta=self.traces.precision_beta,
        )
        noise = np.sqrt(self.theta.reshape(-1, 4)[:, 3])
        return Prediction(found.mean, np.sqrt(found.latent), noise)


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
    """Fit to observations y (n,) at points (n, q); covariates (n, p) default to an intercept.

    The likelihood's device is `auto`, `cpu` or `cuda` (auto: the CPU, for batched tensors CUDA where there is one); a
    CPU computes with as many threads as `BANDGAP_THREADS` says, one by default, so that draws are the same everywhere.
    Raises InputError on values that are not finite, on tables of different lengths and on observations that the trend
    explains to the last digit, ConfigError on a device that is not there or not the engine's.
    """
    config = config or GPConfig()
    place = device_of(config.engine, device)
    wide, values = np.ascontiguousarray(points, dtype=np.float64), np.asarray(y, dtype=np.float64)
    rows = (
        np.ones((len(values), 1))
        if covariates is None
        else np.ascontiguousarray(covariates, dtype=np.float64)
    )
    exact = config.is_exact(len(values))
    blocks = build_blocks(wide, rows, values, m=1 if exact else config.neighbours, seed=seed)
    _refuse_constant(rows, values)
    sites: Sites = (
        DenseSites(wide, rows, values) if exact else sites_on(blocks, config.engine, device=place)
    )
    start = typical_scales(wide, rows, values)
    own = priors or weak_priors(start)
    choices = _choices(config)
    targets = [Target(sites, own, nu=nu) for nu in choices]
    starts = [target.eta(start) for target in targets]
    said: dict[str, Any] = {"seed": seed, "progress": progress}
    with few_blas_threads():
        if config.sampler == "sgfs":
            target, mode = _likeliest(
                targets, _maxima(targets, starts, config, **said, checkpoint=checkpoint)
            )
            draws = drawn_at_maximum(mode)
        else:
            target, mode = _mode(targets, starts, config, exact=exact, **said)
            draws = sample_scales(
                blocks, target, mode, config, exact=exact, **said, checkpoint=checkpoint
            )
            draws = replace(draws, warnings=(*far_from_mode(mode), *draws.warnings))
    chains, length = draws.eta.shape[:2]
    chosen = (
        np.linspace(0, length - 1, max(1, min(length, config.keep // chains)))
        .round()
        .astype(np.int64)
    )
    theta = np.array([[target.theta(eta) for eta in chain[chosen]] for chain in draws.eta])
    observed = Observed(wide, rows, values)
    nu, near = float(np.median(theta[..., 2])), config.predict_from if len(values) > ALL_ROWS else 0
    return GaussianProcess(observed, theta, draws.beta[:, chosen], draws, mode, nu, near)


def typical_scales(points: Floats, covariates: Floats, y: Floats) -> Theta:
    """Return where searches begin: the variance that a straight line leaves, three median neighbour distances."""
    variance = float(_beside_trend(covariates, y).var()) or 1.0
    some = points[np.linspace(0, len(points) - 1, min(len(points), SAMPLE_ROWS)).astype(np.int64)]
    near = np.linalg.norm(points[nearest(points, some, 2)] - some[:, None], axis=-1).max(axis=1)
    distance = float(np.median(near))
    spread = float(np.sqrt(points.var(axis=0).sum()))
    return Theta(0.8 * variance, 3.0 * (distance or spread or 1.0), 1.5, 0.2 * variance)


def weak_priors(scales: Theta) -> Priors:
    """Return log-normal priors about typical scales: of variance 4 for both variances, 1 for the range."""
    *_, t = np.log(np.array(scales))
    sigma2, rho = weak_process_priors(scales)
    return Priors(sigma2, rho, LogNormal(0.0, 1.0), LogNormal(t, 4.0))


def weak_process_priors(scales: Theta) -> tuple[LogNormal, LogNormal]:
    """Return those of the process's variance and range among `weak_priors`."""
    s, rho, *_ = np.log(np.array(scales))
    return LogNormal(s, 4.0), LogNormal(rho, 1.0)


def far_from_mode(mode: Mode) -> tuple[str, ...]:
    """Return a sentence where the search ended with a step before it that is more than a rough search leaves."""
    if mode.converged or mode.left <= ROUGH:
        return ()
    return (
        f"The search for the likeliest scales was cut off after {mode.iterations} steps with another of "
        f"{np.sqrt(mode.left):.2g} standard deviations before it: scales and intervals may be far off. Give a "
        "smoothness (nu) instead of 'auto', priors nearer to the data, or sample by 'metropolis' with a longer "
        "warm-up.",
    )


def _beside_trend(covariates: Floats, y: Floats) -> Floats:
    """Return what a straight line in the covariates leaves of observations (n,)."""
    return np.asarray(
        y - covariates @ np.linalg.lstsq(covariates, y, rcond=None)[0], dtype=np.float64
    )


def _refuse_constant(covariates: Floats, y: Floats) -> None:
    """Raise InputError where the covariates, an intercept among them, explain the observations to rounding."""
    spread, largest = float(_beside_trend(covariates, y).std()), float(np.abs(y).max())
    if len(y) > covariates.shape[1] and spread <= ROUNDING * largest:
        raise InputError(
            f"{len(y)} observations up to {largest:.6g} that the trend leaves a standard deviation of {spread:.2g} "
            "of: they are constant, or covariates explain them to the last digit. Nothing is left for a process to "
            "learn. Give observations that vary, or leave such covariates out."
        )


def _choices(config: GPConfig) -> tuple[float | None, ...]:
    """Return the values of the smoothness to choose from, None where it is free."""
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
    """Return the likeliest target and its mode; many sites are searched from the modes of a part of them."""
    sites = targets[0].sites
    if not exact and sites.n > 2 * PART_ROWS:
        places = np.random.default_rng([seed, 0x9A27]).choice(sites.n, PART_ROWS, replace=False)
        parts = [replace(target, sites=PartOfSites(sites, np.sort(places))) for target in targets]
        starts = [mode.eta for mode in _modes(parts, starts, progress=progress)]
    target, mode = _likeliest(targets, _modes(targets, starts, progress=progress))
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
    """Return where SGFS ends for each of the targets, each with a file of its own."""
    found = []
    for i, (target, start) in enumerate(zip(targets, starts, strict=True)):
        part = part_of_checkpoint(checkpoint, i)
        found.append(
            maximum_by_batches(
                target, start, config.sgfs, seed=seed, progress=progress, checkpoint=part
            )
        )
    return found


def _modes(targets: list[Target], starts: list[Floats], *, progress: Progress) -> list[Mode]:
    """Return the modes of the targets, roughly."""
    found = []
    for target, start in zip(targets, starts, strict=True):
        phase = f"searching the scales at {'a free smoothness' if target.nu is None else f'smoothness {target.nu:g}'}"
        found.append(find_mode(target, start, tolerance=ROUGH, phase=phase, progress=progress))
    return found


def _likeliest(targets: list[Target], modes: list[Mode]) -> tuple[Target, Mode]:
    """Return the target of the largest evidence by Laplace's approximation, and its mode."""

    def evidence(pair: tuple[Target, Mode]) -> float:
        mode = pair[1]
        volumes = [np.linalg.slogdet(part)[1] for part in (mode.precision, mode.precision_beta)]
        return float(mode.value - 0.5 * sum(volumes))

    return max(zip(targets, modes, strict=True), key=evidence)
