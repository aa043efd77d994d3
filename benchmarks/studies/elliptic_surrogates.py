"""Tables 1 and 2 of Wang, Deng and Lin (2021): networks that learn flows in a porous square.

Table 1 has sources that vary on one permeability field, table 2 permeability fields that vary. The
networks are trained by SGLD and by HAMCMC-SA with normalised steps, memory 1 or 2, with and without
pruning. Step and inverse temperature are the paper's, and the loss is the mean relative error.
SGLD whose steps are normalised as those of HAMCMC-SA shows what the matrices add.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.pruning import Pruning
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from benchmarks.studies.elliptic_flow import (
    N1,
    N2,
    Layers,
    SurrogateTarget,
    karhunen_loeve,
    permeability,
    relative_errors,
    solve_flow,
    surrogate,
    wells,
)
from benchmarks.studies.published_tables import printed, row_of
from benchmarks.studies.study import (
    METHODS_SWAPPED,
    Part,
    Result,
    Row,
    Scale,
    Statement,
    Study,
    mean_part,
    mean_row,
)

Floats = NDArray[np.float64]

STEP = 0.01
EVERY = 25  # steps from one matrix to the next; the paper has 1, which costs ten times as much
N_DRAWS = 10  # networks whose predictions are averaged, from the last quarter of a run
CONTRAST = 1e3  # of the fixed permeability field of problem 1
ERROR = "mean relative error of test flows (%)"
SGLD = "SGLD"
NORMALISED_SGLD = "SGLD, normalised steps"
ONE = "HAMCMC-SA, M = 1"
TWO = "HAMCMC-SA, M = 2"
METHODS = (SGLD, NORMALISED_SGLD, ONE, TWO)
COLUMNS = {SGLD: "sgld", ONE: "hamcmc_sa_m1", TWO: "hamcmc_sa_m2"}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What differs between the two tables: networks, settings, and rates of pruning in percent."""

    table: str
    layers: Layers
    small_layers: Layers
    n_training: int
    n_test: int
    inverse_temperature: float
    omega: tuple[float, float, float]
    rates: tuple[int, ...]


SOURCES = Problem(
    table="hamcmc_sa_table1",
    layers=N1,
    small_layers=Layers(channels=4, width=50),
    n_training=1200,
    n_test=300,
    inverse_temperature=1e4,
    # 25 times the paper's 5 (1000 + 25 k)^-0.9, for a matrix every 25 steps.
    omega=(25 * 5.0 / 25**0.9, 40.0, 0.9),
    rates=(0, 30, 50, 70),
)
# The paper has 1,500 flows, 1,300 for training, and prints 300 for testing.
PERMEABILITIES = Problem(
    table="hamcmc_sa_table2",
    layers=N2,
    small_layers=Layers((8, 4), channels=4, width=50),
    n_training=1300,
    n_test=200,
    inverse_temperature=5e4,
    omega=(5.0, 10.0, 0.9),  # of the paper; 25 times as large it would exceed 1
    rates=(0, 30, 50),
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """Cells of a side, share of the paper's flows, batch, iterations, seeds, and whether small.

    A small network has fewer channels and a narrower last layer.
    """

    grid: int
    share: float
    batch_size: int
    iterations: int
    n_seeds: int
    is_small: bool


SIZES = {
    "smoke": Size(grid=20, share=0.02, batch_size=10, iterations=40, n_seeds=2, is_small=True),
    "laptop": Size(grid=20, share=0.2, batch_size=50, iterations=400, n_seeds=3, is_small=True),
    "paper": Size(grid=50, share=1.0, batch_size=100, iterations=12_000, n_seeds=5, is_small=False),
}


@dataclass(frozen=True, eq=False)
class Flows:
    """Fields (n, 1, grid, grid) and velocities (n, edges) of training rows, and of test rows."""

    fields: torch.Tensor
    velocities: torch.Tensor
    test_fields: torch.Tensor
    test_velocities: torch.Tensor


def solved_flows(problem: Problem, size: Size, *, seed: int) -> Flows:
    """Draw and solve the flows of a problem; velocities are in units of their root mean square."""
    generator = np.random.default_rng(seed)
    grid = size.grid
    terms = karhunen_loeve(grid, grid)
    n_training = round(size.share * problem.n_training)
    n = n_training + round(size.share * problem.n_test)
    inputs = []
    velocities = []
    field = np.tensordot(generator.standard_normal(len(terms)), terms, 1)
    kappa = np.exp(math.log(CONTRAST) * (field - field.min()) / np.ptp(field))
    for _ in range(n):
        if problem is SOURCES:
            upper, lower = generator.normal(10.0, math.sqrt(5.0), 2)
            source = wells(grid, grid, upper_right=upper, lower_left=lower)
            inputs.append(source / 10.0)
            velocities.append(solve_flow(kappa, source).edges)
        else:
            of_row = permeability(terms, generator.standard_normal(len(terms)))
            flow = solve_flow(of_row, np.ones((grid, grid)), left_pressure=1.0, right_pressure=0.0)
            inputs.append(np.log(of_row))
            velocities.append(flow.edges)
    scaled = np.array(velocities)
    scaled /= math.sqrt(float((scaled[:n_training] ** 2).mean()))
    x = torch.from_numpy(np.array(inputs)).float()[:, None]
    u = torch.from_numpy(scaled).float()
    return Flows(x[:n_training], u[:n_training], x[n_training:], u[n_training:])


def samplers_of(problem: Problem) -> dict[str, AnyConfig]:
    """Return the samplers of a table, and SGLD with normalised steps."""
    tau = problem.inverse_temperature

    def averaged(memory: int, every: int = EVERY) -> HamcmcSaConfig:
        return HamcmcSaConfig(
            STEP,
            tau,
            memory=memory,
            every=every,
            omega=problem.omega,
            regularise=0.0,
            normalise="normalised steps, not the posterior",
            freeze_after_warmup=False,
        )

    never = 10**9  # no matrix is added, so that the metric stays the identity
    return {
        SGLD: SgldConfig(STEP, tau),
        NORMALISED_SGLD: averaged(1, never),
        ONE: averaged(1),
        TWO: averaged(2),
    }


def test_error(
    flows: Flows, problem: Problem, size: Size, *, sampler: AnyConfig, rate: int, seed: int
) -> float:
    """Return the mean relative error in percent of the averaged prediction.

    It is infinite if the run diverged. The start depends on the seed alone.
    """
    torch.manual_seed(seed)
    network = surrogate(problem.small_layers if size.is_small else problem.layers, grid=size.grid)
    target = SurrogateTarget(network, flows.fields, flows.velocities)
    n_after = size.iterations // 4
    config = RunConfig(
        size.iterations - n_after, n_after, n_after // N_DRAWS, batch_size=size.batch_size
    )
    pruning = pruning_of(target, size, rate=rate) if rate else None
    try:
        draws, _ = sample(
            target,
            sampler,
            target.start[None],
            config=config,
            seed=seed,
            extras=Extras(pruning=pruning),
        )
    except DivergedError:
        return math.inf
    with torch.no_grad():
        parts = [target.predicted(position, flows.test_fields) for position in draws.position[0]]
        predicted = torch.stack(parts).mean(0)
        return 100.0 * float(relative_errors(predicted, flows.test_velocities).mean())


def pruning_of(target: SurrogateTarget, size: Size, *, rate: int) -> Pruning:
    """Return pruning every 10 iterations whose share is 99 % of the rate halfway through the run.

    The paper states neither its period nor how its rate increases.
    """
    every = 10
    n_prunings = size.iterations // every
    return Pruning(
        target.matrices(), every=every, share=rate / 100, decay=0.01, slowness=0.5 * n_prunings
    )


def run(problem: Problem, scale: Scale, seed: int) -> Result:
    """Train the networks of one table with several seeds, which draw flows and starts."""
    size = SIZES[scale]
    # Errors (seed,) by rate and method.
    errors: dict[tuple[int, str], Floats] = {
        (rate, method): np.empty(size.n_seeds) for rate in problem.rates for method in METHODS
    }
    for number in range(size.n_seeds):
        of_seed = size.n_seeds * seed + number
        flows = solved_flows(problem, size, seed=of_seed)
        for method, sampler in samplers_of(problem).items():
            for rate in problem.rates:
                errors[rate, method][number] = test_error(
                    flows, problem, size, sampler=sampler, rate=rate, seed=of_seed
                )
    rows = [
        _row(problem, rate, method, values)
        for (rate, method), values in errors.items()
        if np.isfinite(values).all()
    ]
    return Result(
        rows=rows,
        statements=_statements(problem, errors),
        reasons=dict.fromkeys(COLUMNS, _UNSTATED),
        incomparable={} if scale == "paper" else dict.fromkeys(COLUMNS, _SMALLER),
        notes=_notes(problem, size, errors),
    )


_UNSTATED = "the paper states neither its number of iterations nor all layers."
_SMALLER = "the grid, the networks and the number of flows are smaller than the paper's."


def _row(problem: Problem, rate: int, method: str, values: Floats) -> Row:
    cells = row_of(problem.table, pruning_sparse_rate_percent=rate)
    return mean_row(
        values,
        setting=f"{rate} % pruned" if rate else "no pruning",
        method=method,
        quantity=ERROR,
        table=problem.table,
        published=printed(cells, COLUMNS[method]) if method in COLUMNS else None,
    )


def _statements(problem: Problem, errors: Mapping[tuple[int, str], Floats]) -> list[Statement]:
    """Return the paper's statements: SA is better than SGLD, and pruning reduces the error."""

    def less_than(other: str) -> list[Part]:
        return [
            mean_part(
                f"{method} minus {other} at {rate} %", errors[rate, method] - errors[rate, other]
            )
            for rate in problem.rates
            for method in (ONE, TWO)
        ]

    pruned = [
        mean_part(f"{method}, {rate} % minus no pruning", errors[rate, method] - errors[0, method])
        for rate in problem.rates[1:]
        for method in (ONE, TWO)
    ]
    return [
        Statement("HAMCMC-SA has smaller errors than SGLD.", less_than(SGLD)),
        Statement("Pruning reduces the errors of HAMCMC-SA.", pruned),
        Statement(
            "HAMCMC-SA has smaller errors than SGLD whose steps are normalised alike (not in the "
            "paper: the effect of its matrices alone).",
            less_than(NORMALISED_SGLD),
        ),
    ]


def _notes(problem: Problem, size: Size, errors: Mapping[tuple[int, str], Floats]) -> list[str]:
    diverged = [
        f"{method}, {rate} %" for (rate, method), values in errors.items() if np.isinf(values).any()
    ]
    field = (
        "The permeability is exp of one random field with a contrast of 1,000: the layer of the "
        "SPE10 model is not at hand."
        if problem is SOURCES
        else "The logarithm of the permeability is the expansion, which is negative at places, and "
        "is the input of the network."
    )
    noise = math.sqrt(2.0 * STEP / problem.inverse_temperature)
    return [
        f"{size.grid} x {size.grid} cells, {round(size.share * problem.n_training):,} flows for "
        f"training and {round(size.share * problem.n_test)} for testing, batches of "
        f"{size.batch_size}, {size.iterations:,} iterations (the paper does not state its own), "
        f"{size.n_seeds} seeds, each with its own flows and start.",
        field,
        "Predictions are averaged over 10 networks of the last quarter of a run. An error of 100 % "
        "is that of the prediction 0.",
        f"A step of SGLD adds noise of {noise:.4f} to each weight, without a prior a random walk "
        f"of {noise * math.sqrt(size.iterations):.3f} in a run; at the start the mean size of a "
        "weight is 0.05. Its drift moves all weights together by less than 0.01, as the gradient "
        "of the loss is shorter than 1. Normalised, the noise of all weights together has the "
        "length that plain SGLD gives to each. The text describes no way to the printed errors of "
        "SGLD.",
        f"HAMCMC-SA adds a matrix every {EVERY} steps, the paper every step.",
        *([f"Diverged: {', '.join(diverged)}."] if diverged else []),
    ]


LEFT_OUT = "the paper's grid, networks and number of flows, except at paper scale"
STUDIES = (
    Study(
        name="hamcmc-table-1",
        title="Networks that learn flows of varying sources",
        source="Wang, Deng and Lin (2021), section 5.3.1, table 1",
        tables=(SOURCES.table,),
        run=lambda scale, seed: run(SOURCES, scale, seed),
        fault=METHODS_SWAPPED,
        left_out=LEFT_OUT,
    ),
    Study(
        name="hamcmc-table-2",
        title="Networks that learn flows through varying permeabilities",
        source="Wang, Deng and Lin (2021), section 5.3.2, table 2",
        tables=(PERMEABILITIES.table,),
        run=lambda scale, seed: run(PERMEABILITIES, scale, seed),
        fault=METHODS_SWAPPED,
        left_out=LEFT_OUT,
    ),
)
