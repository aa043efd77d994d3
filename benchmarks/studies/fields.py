"""Tables 4.1 to 4.3 and C.1 of Abba (2023): the covariance of simulated fields (section 4.4.1).

A grid of spacing 1, sigma2 = 5, tau2 = 5 k with k one of 0.2, 1 and 5, nu one of 0.5, 1 and 1.5,
and mean -3 + 5 cos x_i with x_i ~ U(-3, 3). The correlation at the largest distance of the grid of
10,000 sites is 10 to a power that is lost in print; it is read as -10, the only one that puts rho
in the bulk of its prior. The fields are drawn exactly, by circulant embedding.

Samplers are those of `bandgap.research`: SGRLD, pSGLD, ADAMSGLD and MSGLD as published, and NNGP,
Metropolis with all sites. Two more are bandgap's recommendation (a fixed metric and control
variates) and the posterior mode. The text does not say where chains start: they start at the prior
medians of rho and nu, with the residual variance halved between sigma2 and tau2. The other reading
is a start at the true values. The first step is 1 / N, halved until the first move is shorter than
1, and decreases to a hundredth; a quarter of the steps is warm-up.

In table C.1 SGFS, RMSprop, Adam and SGD with momentum take at most 10 passes over all sites in
batches, and stop when the mean inner product of successive gradients over a pass is negative (Chee
and Toulis 2018). The estimate is the mean over the last pass. GpGp is Fisher scoring with all sites
(Guinness 2019).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.inference.diagnostics import ess_bulk
from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.asgld import AsgldConfig
from bandgap.research.stochastic_gradient.msgld import MsgldConfig
from bandgap.research.stochastic_gradient.outcomes import RunConfig
from bandgap.research.stochastic_gradient.psgld import PsgldConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.schedules import Stepwise
from bandgap.research.vecchia.correlation import matern
from bandgap.research.vecchia.first_order import SiteTarget
from bandgap.research.vecchia.langevin import LangevinConfig, batch_of, sample_langevin
from bandgap.research.vecchia.likelihood import Blocks, Theta, build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.published import PublishedConfig, sample_published
from bandgap.research.vecchia.scoring import Mode, find_mode
from bandgap.research.vecchia.target import FLAT, Target
from benchmarks.studies.cpu_time import cpu_seconds
from benchmarks.studies.published_tables import cell
from benchmarks.studies.study import (
    Floats,
    Key,
    Statement,
    Values,
    below,
    mean_part,
    readings,
    study_of,
)

SIGMA2 = 5.0
NUGGETS = (0.2, 1.0, 5.0)  # tau2 / sigma2
# nu and the rho at which the correlation at distance 140 is 1e-10.
RANGES = {0.5: 6.08, 1.0: 5.59, 1.5: 5.27}
BETA = (-3.0, 5.0)
MEDIAN_RHO = 4.33  # of Gamma(9, 2)
NEIGHBOURS = 15
PRINTED_STEPS = 20_000
LONGEST = 0.01  # first step
FROM_TRUTH = "chains start at the true values"
FROM_ONE = "first step 1, halved"
RELATIVE = "errors relative to the true value"
MACHINE = "this machine"
ERROR = "mean squared error"
COVERAGE = "coverage of 95 % intervals"
SPEED = "effective draws per minute"
SECONDS = "seconds a data set"
ACCEPTED = Key("all parameters", "NNGP", "share of accepted moves")
TABLES = {
    ERROR: "sgrld_table_4_1_mse",
    COVERAGE: "sgrld_table_4_2_coverage95",
    SPEED: "sgrld_table_4_3_ess_per_minute",
}
CONFIGS: dict[str, AnyConfig] = {
    "pSGLD": PsgldConfig(1.0, freeze_after_warmup=False),
    "ADAMSGLD": AsgldConfig(1.0),
    "MSGLD": MsgldConfig(1.0, corrected=False),
}
FIXED_METRIC = "SGRLD, fixed metric (bandgap)"
COLUMNS = {"RMSprop": "RMSPROP", "Adam": "ADAM", "momentum": "MSGD", "GpGp": "GPGP", "SGFS": "SGFS"}
TABLE_C_1 = "sgfs_table_c_1_mse"


@dataclass(frozen=True, eq=False)
class Field:
    """A field, its true eta, and the start (eta, beta) that knows the prior and a regression."""

    blocks: Blocks
    truth: Floats
    start: tuple[Floats, Floats]

    @property
    def target(self) -> Target:
        """The posterior."""
        return Target(self.blocks, nu=None)


def simulate(side: int, *, seed: int) -> Field:
    """Draw a field with random smoothness and nugget on a grid."""
    rng = np.random.default_rng([seed, 41])
    nu = float(rng.choice(list(RANGES)))
    theta = Theta(SIGMA2, RANGES[nu], nu, SIGMA2 * float(rng.choice(NUGGETS)))
    points = np.stack(np.meshgrid(*[np.arange(side)] * 2, indexing="ij"), -1).reshape(-1, 2)
    covariates = np.ones((len(points), 2))
    covariates[:, 1] = np.cos(rng.uniform(-3.0, 3.0, len(points)))
    field = stationary_field(side, rho=theta.rho, nu=nu, rng=rng).ravel()
    noise = math.sqrt(theta.tau2) * rng.standard_normal(len(points))
    y = covariates @ BETA + math.sqrt(SIGMA2) * field + noise
    beta, squares, *_ = np.linalg.lstsq(covariates, y, rcond=None)
    half = 0.5 * float(squares[0]) / len(y)
    eta = np.log(np.array([half, MEDIAN_RHO, math.e, half]))
    blocks = build_blocks(points.astype(np.float64), covariates, y, m=NEIGHBOURS, order="max-min")
    return Field(blocks, np.log(np.array(theta)), (eta, np.asarray(beta, dtype=np.float64)))


def stationary_field(side: int, *, rho: float, nu: float, rng: np.random.Generator) -> Floats:
    """Draw a field of variance 1 on a grid by circulant embedding."""
    spectrum = _spectrum(side, rho, nu)
    white = rng.standard_normal(spectrum.shape) + 1j * rng.standard_normal(spectrum.shape)
    field = np.fft.fft2(np.sqrt(spectrum / spectrum.size) * white).real
    return np.asarray(field[:side, :side])


@cache
def _spectrum(side: int, rho: float, nu: float) -> Floats:
    """Return the eigenvalues of the covariance on a torus that contains the grid.

    The torus is so large that correlations at its half are below 1e-8, so that no eigenvalue is
    below -1e-6; negative ones are set to 0.
    """
    n = int(2 ** np.ceil(np.log2(max(2 * side, 40 * rho))))
    axis = np.minimum(np.arange(n), n - np.arange(n))
    distinct, places = np.unique(np.hypot(axis[:, None], axis), return_inverse=True)
    covariance = matern(torch.from_numpy(distinct), rho, nu).numpy()[places].reshape(n, n)
    return np.asarray(np.maximum(np.fft.fft2(covariance).real, 0.0))


def halved(step: float, move: float) -> float:
    """Return the step, halved until it is shorter than 1 where it moves by `move` steps."""
    return step * 0.5 ** max(0, math.ceil(math.log2(max(step * move, 1e-300))))


def first_step(field: Field, steps: int) -> float:
    """Return the first step before it is halved; with fewer steps than the paper it is longer."""
    return min(PRINTED_STEPS / steps / field.blocks.n, LONGEST)


def sgrld(field: Field, eta: Floats, *, batch: int, steps: int, seed: int) -> Floats:
    """Return draws (draw, 4) of SGRLD as published."""
    beta = field.start[1]
    index = batch_of(field.blocks.n, batch, np.random.default_rng(seed))
    pull = field.target.pull(eta, beta, index)
    move = float(np.linalg.norm(np.linalg.solve(pull.terms.fisher_log_theta, pull.grad_eta)))
    step = halved(first_step(field, steps), move)
    config = PublishedConfig(step=step, batch=batch, chains=1, steps=steps)
    draws = sample_published(field.blocks, field.target, eta, beta, config, seed=seed)
    return np.asarray(draws.eta[0])


def first_order(
    field: Field, eta: Floats, config: AnyConfig, *, batch: int, steps: int, seed: int
) -> Floats:
    """Return draws (draw, 4) of a sampler with gradients of batches, in the units of eta."""
    start = np.concatenate([eta, field.start[1]])
    target = SiteTarget(field.target, np.zeros(len(start)), np.eye(len(start)))
    step = first_step(field, steps)
    schedule = Stepwise(0.01 ** (1 / steps), every=1)
    position = torch.from_numpy(start)[None]

    def run(length: int, step: float) -> Tensor:
        warmup = length // 4
        lengths = RunConfig(warmup, length - warmup, 1, batch, schedule, longest_move=1e30)
        draws, _ = sample(target, replace(config, step=step), position, config=lengths, seed=seed)
        return draws.position[0]

    move = float((run(1, step)[0] - position[0]).norm()) / step
    return np.asarray(run(steps, halved(step, move))[:, :4])


def samplers(seed: int, *, side: int, batch: int, steps: int, nngp: int, fixed: int) -> Values:
    """Sample one field by all methods, SGRLD and the first-order ones from both starts."""
    field = simulate(side, seed=seed)
    target = field.target
    mode = find_mode(target, field.truth)
    lengths = {"batch": batch, "steps": steps, "seed": seed}
    acceptance = np.array([np.nan])
    warmup = fixed // 4

    def metropolis() -> Floats:
        config = MetropolisConfig(chains=1, warmup=0, draws=nngp, independent=False)
        draws = sample_metropolis(target, mode, config, seed=seed)
        acceptance[:] = draws.figures["acceptance"]
        return np.asarray(draws.eta[0, nngp // 4 :])

    def in_fixed_metric() -> Floats:
        config = LangevinConfig(0.1, batch, chains=1, warmup=warmup, draws=fixed - warmup, thin=1)
        return np.asarray(sample_langevin(target, mode, config, seed=seed).eta[0])

    methods: dict[tuple[str, str], Callable[[], Floats]] = {
        ("", "NNGP"): metropolis,
        ("", FIXED_METRIC): in_fixed_metric,
    }
    for reading, eta in (("", field.start[0]), (FROM_TRUTH, field.truth)):
        for name, config in CONFIGS.items():
            methods[reading, name] = partial(first_order, field, eta, config, **lengths)
        methods[reading, "SGRLD"] = partial(sgrld, field, eta, **lengths)
    values = errors_of("", "posterior mode", np.exp(mode.eta), field)
    for (reading, name), method in methods.items():
        started = cpu_seconds()
        try:
            draws = method()
        except DivergedError:
            draws = np.full((4, 4), np.nan)
        minutes = (cpu_seconds() - started) / 60
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        inside = np.where(np.isfinite(low), (low <= field.truth) & (field.truth <= high), np.nan)
        ess = ess_bulk(draws[None]) / minutes
        values |= errors_of(reading, name, np.exp(draws).mean(0), field)
        for j, parameter in enumerate(Theta._fields):
            values[Key(parameter, name, COVERAGE, reading)] = inside[j]
            values[Key(parameter, name, SPEED, readings(reading, MACHINE))] = ess[j]
    return values | {ACCEPTED: acceptance}


def errors_of(reading: str, method: str, theta: Floats, field: Field) -> Values:
    """Return squared errors and relative ones of an estimate (4,)."""
    truth = np.exp(field.truth)
    values: Values = {}
    for j, parameter in enumerate(Theta._fields):
        error = theta[j] - truth[j]
        values[Key(parameter, method, ERROR, reading)] = np.array(error**2)
        relative = readings(reading, RELATIVE)
        values[Key(parameter, method, ERROR, relative)] = np.array((error / truth[j]) ** 2)
    return values


def printed_of_samplers(key: Key, n: int) -> Mapping[str, Any]:
    """Return the printed number of tables 4.1 to 4.3 for n sites."""
    if key.method not in (*CONFIGS, "SGRLD", "NNGP") or key == ACCEPTED:
        return {}
    place = {"n": n, "algorithm": key.method, "parameter": key.setting}
    return cell(TABLES[key.quantity], "mean", "monte_carlo_se", **place)


def on_samplers(values: Values) -> list[Statement]:
    """Return the statements on SGRLD, and on the share of moves that NNGP accepts."""

    def speed(method: str) -> Floats:
        return np.array([values[Key(name, method, SPEED, MACHINE)] for name in Theta._fields])

    of_sgrld = speed("SGRLD")
    # One data set more inside and outside, so that the error of a coverage of 1 is not 0.
    coverages = {
        name: np.append(values[Key(name, "SGRLD", COVERAGE)], [0.0, 1.0]) for name in ("rho", "nu")
    }
    return [
        Statement(
            "SGRLD has the lowest errors of all parameters.",
            below(values, "SGRLD", (*CONFIGS, "NNGP"), ERROR, Theta._fields),
        ),
        Statement(
            "The coverage of SGRLD for range and smoothness is above 90 %.",
            [mean_part(name, part, low=0.9, high=math.inf) for name, part in coverages.items()],
        ),
        Statement(
            "Effective draws of SGRLD are of the same order for all parameters.",
            [mean_part("most over fewest", of_sgrld.max(0) / of_sgrld.min(0), high=10.0)],
            "read as below 10; chains shorter than the relaxation have rough numbers of draws",
        ),
        Statement(
            "SGRLD has more effective draws a minute than NNGP for all parameters.",
            [
                mean_part(f"{name}: NNGP minus SGRLD", part)
                for name, part in zip(Theta._fields, speed("NNGP") - speed("SGRLD"), strict=True)
            ],
        ),
        Statement(
            "NNGP accepts less than 15 % of the moves, also from the true values.",
            [mean_part("accepted", values[ACCEPTED], high=0.15)],
            "with the covariance of the posterior as that of the moves",
        ),
    ]


Optimiser = Callable[[list[Tensor]], torch.optim.Optimizer]
OPTIMISERS: dict[str, Optimiser] = {
    "RMSprop": partial(torch.optim.RMSprop, lr=1.0, alpha=0.99, eps=1e-5),
    "Adam": partial(torch.optim.Adam, lr=1.0),
    "momentum": partial(torch.optim.SGD, lr=1.0, momentum=0.9),
    "SGFS": partial(torch.optim.SGD, lr=1.0),
}


def maximum_by_batches(
    field: Field, method: str, *, batch: int, first_step: float, seed: int
) -> Floats:
    """Return theta (4,) after at most 10 passes."""
    rng = np.random.default_rng(seed)
    target = Target(field.blocks, FLAT, nu=None)
    phi = torch.from_numpy(np.concatenate(field.start)).clone()
    optimiser = OPTIMISERS[method]([phi])
    per_epoch = math.ceil(field.blocks.n / batch)
    last = np.zeros(4)
    for epoch in range(10):
        path = []
        product = 0.0
        for i in range(per_epoch):
            index = batch_of(field.blocks.n, batch, rng)
            terms = target.terms(phi[:4].numpy(), phi[4:].numpy(), index)
            slopes: list[Any] = [terms.grad_log_theta, terms.grad_beta]
            product += float(slopes[0] @ last)
            last = slopes[0]
            if method == "SGFS":
                slopes = [
                    np.linalg.solve(terms.fisher_log_theta, slopes[0]),
                    np.linalg.solve(terms.p4, slopes[1]),
                ]
            phi.grad = -torch.from_numpy(np.concatenate(slopes))
            if epoch + i == 0:
                before = phi.clone()
                OPTIMISERS[method]([phi]).step()
                first_step = halved(first_step, float((phi - before).norm()))
                phi.copy_(before)
            done = (epoch * per_epoch + i) / (10 * per_epoch)
            optimiser.param_groups[0]["lr"] = first_step * 0.01**done
            optimiser.step()
            path.append(phi.numpy().copy())
        if product < 0:
            break
    return np.asarray(np.exp(np.mean(path, 0)[:4]))


def optimisers(seed: int, *, side: int, batch: int) -> Values:
    """Fit one field by all methods."""
    field = simulate(side, seed=seed)

    def all_sites() -> Floats:
        mode: Mode = find_mode(Target(field.blocks, FLAT, nu=None), field.start[0])
        return np.exp(mode.eta)

    fits: dict[tuple[str, str], Callable[[], Floats]] = {("", "GpGp"): all_sites}
    for reading, step in (("", 1.0 / field.blocks.n), (FROM_ONE, 1.0)):
        for method in OPTIMISERS:
            fits[reading, method] = partial(
                maximum_by_batches, field, method, batch=batch, first_step=step, seed=seed
            )
    values = errors_of("", "start", np.exp(field.start[0]), field)
    for (reading, method), fit in fits.items():
        started = cpu_seconds()
        try:
            theta = fit()
        except (InputError, np.linalg.LinAlgError):  # no density: the search has diverged
            theta = np.full(4, np.nan)
        values |= errors_of(reading, method, theta, field)
        key = Key("all parameters", method, SECONDS, readings(reading, MACHINE))
        values[key] = np.array(cpu_seconds() - started)
    return values


def printed_of_optimisers(key: Key) -> Mapping[str, Any]:
    """Return the printed number of table C.1 for 10,000 sites."""
    if key.method not in COLUMNS:
        return {}
    parameter = "sigma2" if key.quantity == SECONDS else key.setting
    place: dict[str, Any] = {"n": 10_000, "algorithm": COLUMNS[key.method], "parameter": parameter}
    columns = ("time_s",) if key.quantity == SECONDS else ("mean", "monte_carlo_se")
    return cell(TABLE_C_1, *columns, **place)


def on_optimisers(values: Values) -> list[Statement]:
    """Return the statements on errors and times, with the first step that the text states."""
    rivals = [method for method in COLUMNS if method != "SGFS"]

    def seconds(method: str) -> Floats:
        return values[Key("all parameters", method, SECONDS, MACHINE)]

    return [
        Statement(
            "SGFS has lower errors than the others.",
            below(values, "SGFS", rivals, ERROR, Theta._fields),
        ),
        Statement(
            "The stochastic methods take at most half the time of GpGp.",
            [
                mean_part(f"time of {name} over GpGp", seconds(name) / seconds("GpGp"), high=0.5)
                for name in OPTIMISERS
            ],
        ),
    ]


STUDIES = (
    *(
        study_of(
            name,
            samplers,
            printed=partial(printed_of_samplers, n=n),
            statements=on_samplers,
            one_block=True,
        )
        for name, n in (("table-4.1", 10_000), ("table-4.1-large", 100_000))
    ),
    study_of(
        "table-C.1",
        optimisers,
        printed=printed_of_optimisers,
        statements=on_optimisers,
        one_block=True,
    ),
)
