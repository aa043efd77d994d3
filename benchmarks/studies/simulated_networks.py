"""Tables 2.1 and 2.2 of Abba (2023): transfer between simulated regressions, 500 data sets.

Every data set has its own source. TL1 trains on the target alone, TL2 from the source in two
stages, BNN samples a network without a source, BTL-PCP-PE and BTL-PCP-VI sample around the source's
point estimate and variational posterior. Errors and coverage are those of the mean function on 200
test rows. All values of k are one batch.
"""

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.inference.diagnostics import rhat
from bandgap.priors.correlation import (
    OutputVariance,
    UnreachableCorrelationError,
    rate_for_correlation,
)
from bandgap.priors.penalized_complexity import DistanceTerms, inverse_distance
from benchmarks.studies import batched_networks as networks
from benchmarks.studies.published_tables import printed, row_of
from benchmarks.studies.simulated_transfer import Design, inputs_of, mean_function
from benchmarks.studies.study import (
    METHODS_SWAPPED,
    Part,
    Result,
    Row,
    Scale,
    Statement,
    Study,
    mean_row,
)

Floats = NDArray[np.float64]

WIDTHS = (30, 24, 16, 12, 8, 1)
ADDED = (0, 5, 10, 15)  # k
SOURCE_ROWS = 1000
TEST_ROWS = 200
CORRELATION = 0.5
NOISE_SHARE = 0.2
N_CHAINS = 2


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Lengths of training, of the variational fit in epochs, and of the chains."""

    training: networks.Training
    epochs: int
    chains: networks.Chains
    bnn_chains: networks.Chains

    @property
    def sentence(self) -> str:
        """The lengths of the chains."""
        of_bnn = self.bnn_chains
        return (
            f"{N_CHAINS} chains of {self.chains.warmup} + {self.chains.draws} iterations of "
            f"{self.chains.leapfrog} leapfrog steps (BNN: {of_bnn.warmup} + {of_bnn.draws} of "
            f"{of_bnn.leapfrog}); the paper: 100,000 + 40,000 of 50."
        )


PAPER = Effort(
    training=networks.Training(),
    epochs=60,
    chains=networks.Chains(warmup=1000, draws=2000, leapfrog=12),
    bnn_chains=networks.Chains(warmup=3000, draws=3000, leapfrog=50, first_step=0.005),
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """Data sets of each k, sizes of the target, and lengths of training and chains."""

    replicates: int
    target_rows: tuple[int, ...]
    effort: Effort


SIZES = {
    "smoke": Size(
        replicates=2,
        target_rows=(30,),
        effort=Effort(
            training=networks.Training(max_epochs=5, batch_sizes=(64,)),
            epochs=4,
            chains=networks.Chains(warmup=20, draws=20, leapfrog=4),
            bnn_chains=networks.Chains(warmup=20, draws=20, leapfrog=4),
        ),
    ),
    "laptop": Size(
        replicates=6,
        target_rows=(30, 50, 70),
        effort=Effort(
            training=networks.Training(),
            epochs=60,
            chains=networks.Chains(warmup=200, draws=250, leapfrog=12),
            bnn_chains=networks.Chains(warmup=300, draws=300, leapfrog=25, first_step=0.005),
        ),
    ),
    "paper": Size(replicates=500, target_rows=(30, 50, 70), effort=PAPER),
}
COLUMNS = {
    "TL1": "TL1",
    "TL2": "TL2",
    "BNN": "BNN",
    "BTL-PCP-PE": "BTL_PCP_PE",
    "BTL-PCP-VI": "BTL_PCP_VI",
}
ROOT = "root of the mean squared error"
RATE_ONE = "lam = 1"
OVER_C = "width divided by C"


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs (set, n, p), labels and means without noise (set, n)."""

    x: Tensor
    y: Tensor
    mean: Tensor


@dataclass(frozen=True, eq=False)
class Source:
    """Point estimates and variational posteriors, and centre and scale (set, 1) of the labels."""

    point: networks.Layers
    variational: networks.MeanFields
    centre: Tensor
    sd: Tensor


def rows_of(sets: list[Design], n: int, *, target: bool, generator: torch.Generator) -> Rows:
    """Draw n rows of every data set."""
    parts = []
    for design in sets:
        x = inputs_of(design, (n,), generator=generator)
        mean = mean_function(design, x, target=target)
        noise = design.sigma * torch.randn(n, generator=generator)
        parts.append((x, mean + noise, mean))
    x, y, mean = (torch.stack(column) for column in zip(*parts, strict=True))
    return Rows(x, y, mean)


def fit_source(
    rows: Rows, effort: Effort, *, widths: Sequence[int], generator: torch.Generator
) -> Source:
    """Train and fit the sources of all data sets."""
    centre = rows.y.mean(1, keepdim=True)
    sd = rows.y.std(1, keepdim=True)
    y = (rows.y - centre) / sd
    start = networks.glorot(len(y), widths, generator=generator)
    point = networks.train(start, rows.x, y, config=effort.training, generator=generator)
    variational = networks.fit_variational(
        point, rows.x, y, generator=generator, epochs=effort.epochs
    )
    return Source(point, variational, centre, sd)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Draws (draw, set, chain, n) of f in units of y, one of one chain where f is trained.

    `seconds` are the CPU time of all data sets.
    """

    draws: Tensor
    seconds: float = 0.0

    @property
    def mean(self) -> Tensor:
        """Predicted means (set, n)."""
        return self.draws.mean((0, 2))

    @property
    def of_sets(self) -> Tensor | None:
        """Draws of all chains (draw, set, n), None if there is one."""
        draws = self.draws.permute(0, 2, 1, 3).flatten(0, 1)
        return draws if len(draws) > 1 else None


Methods = dict[tuple[str, str], Callable[[], Tensor]]


def methods_of(
    source: Source,
    target: Rows,
    x_test: Tensor,
    effort: Effort,
    *,
    widths: Sequence[int],
    n_designs: int,
    rates: Mapping[str, float | None],
    generator: torch.Generator,
) -> Methods:
    """Return functions to the draws of every method, by reading of the text and method.

    `rates` has lam of BTL-PCP-PE by reading, None for the rule of the text.
    """
    y = (target.y - source.centre) / source.sd
    alone_centre = target.y.mean(1, keepdim=True)
    alone_sd = target.y.std(1, keepdim=True)
    y_alone = (target.y - alone_centre) / alone_sd

    def trained(
        start: networks.Layers, labels: Tensor, *, only_output: bool = False
    ) -> networks.Layers:
        return networks.train(
            start,
            target.x,
            labels,
            config=effort.training,
            generator=generator,
            only_output=only_output,
        )

    def tl1() -> Tensor:
        layers = trained(networks.glorot(len(y), widths, generator=generator), y_alone)
        return (alone_centre + alone_sd * networks.output(layers, x_test))[None, :, None]

    def tl2() -> Tensor:
        layers = trained(trained(source.point, y, only_output=True), y)
        return (source.centre + source.sd * networks.output(layers, x_test))[None, :, None]

    def sampled(
        problem: networks.Problem,
        start: Tensor,
        chains: networks.Chains,
        centre: Tensor,
        sd: Tensor,
    ) -> Tensor:
        outputs = networks.sample(
            problem,
            x_test.repeat_interleave(N_CHAINS, 0),
            start=start,
            chains=chains,
            generator=generator,
        ).outputs
        by_chain = outputs.reshape(len(outputs), len(y), N_CHAINS, -1)
        return centre[:, None] + sd[:, None] * by_chain

    def point(lam: float | None) -> Tensor:
        problem, start = point_problem(
            source, target.x, y, lam=lam, generator=generator, n_designs=n_designs
        )
        return sampled(problem, start, effort.chains, source.centre, source.sd)

    def variational() -> Tensor:
        problem, start = variational_problem(
            source, target.x, y, generator=generator, n_designs=n_designs
        )
        return sampled(problem, start, effort.chains, source.centre, source.sd)

    def alone() -> Tensor:
        problem, start = bnn_problem(target.x, y_alone, generator=generator, widths=widths)
        return sampled(problem, start, effort.bnn_chains, alone_centre, alone_sd)

    of_rates: Methods = {
        (reading, "BTL-PCP-PE"): partial(point, lam) for reading, lam in rates.items()
    }
    return {
        ("", "TL1"): tl1,
        ("", "TL2"): tl2,
        ("", "BNN"): alone,
        **of_rates,
        ("", "BTL-PCP-VI"): variational,
    }


def predictions(
    methods: Methods, source: Source, target: Rows, x_test: Tensor
) -> dict[tuple[str, str], Prediction]:
    """Return the predictions of methods, of the unchanged source and of a constant."""
    result = {}
    for key, method in methods.items():
        started = time.process_time()
        draws = method().detach()
        result[key] = Prediction(draws, time.process_time() - started)
    unchanged = source.centre + source.sd * networks.output(source.point, x_test)
    constant = target.y.mean(1, keepdim=True).expand(-1, x_test.shape[1])
    result["", "source unchanged"] = Prediction(unchanged[None, :, None])
    result["", "mean of the labels"] = Prediction(constant[None, :, None])
    return result


def _rhats(draws: Tensor) -> Floats:
    """Return R-hat of f at ten test rows of every data set."""
    part = draws[..., :10].permute(2, 0, 1, 3).double()  # (chain, draw, set, row)
    return np.asarray(rhat(part.flatten(2).numpy()), dtype=np.float64)


def point_problem(
    source: Source,
    x: Tensor,
    y: Tensor,
    *,
    lam: float | None,
    generator: torch.Generator,
    n_designs: int,
) -> tuple[networks.Problem, Tensor]:
    """Return the problem of BTL-PCP-PE and start states; lam None is the rule of the text."""
    alpha = networks.gradient_norms(source.point, x)
    weights = torch.full((x.shape[1],), 1.0 / x.shape[1], dtype=torch.float64)
    rates = (
        _rates(
            alpha,
            weights,
            torch.zeros_like(alpha[:, :, 0]),
            alpha,
            torch.ones(len(x)),
            generator=generator,
            n_designs=n_designs,
        )
        if lam is None
        else torch.full((len(x),), lam, dtype=torch.float64)
    )
    return _pcp_problem(
        source.point, None, x, y, alpha, weights, rates, smallest=0.0, generator=generator
    )


def variational_problem(
    source: Source,
    x: Tensor,
    y: Tensor,
    *,
    generator: torch.Generator,
    n_designs: int,
) -> tuple[networks.Problem, Tensor]:
    """Return the problem of BTL-PCP-VI and start states, with lam by the rule of the text."""
    fit = source.variational
    n_layers = len(fit.mean)
    slopes = torch.eye(n_layers, dtype=torch.float64).expand(len(x), -1, -1)
    weights = torch.tensor([float(layer[0].numel()) for layer in fit.mean], dtype=torch.float64)
    gains = networks.output_variances(fit.mean, fit.sd, x)
    rates = _rates(
        slopes,
        weights,
        gains.sum(2),
        gains,
        fit.noise_variance,
        generator=generator,
        n_designs=n_designs,
    )
    return _pcp_problem(
        fit.mean, fit.sd, x, y, slopes, weights, rates, smallest=1.0, generator=generator
    )


def _rates(
    slopes: Tensor,
    weights: Tensor,
    base: Tensor,
    gains: Tensor,
    noise: Tensor,
    *,
    generator: torch.Generator,
    n_designs: int,
) -> Tensor:
    """Return lam (set,) of the correlation rule, found on the first data set of every design.

    It is 1 where no rate gives the correlation.
    """
    of_each_k = len(slopes) // n_designs
    result = torch.ones(len(slopes), dtype=torch.float64)
    for i in range(0, len(slopes), of_each_k):
        try:
            rate = rate_for_correlation(
                CORRELATION,
                slopes[i],
                weights,
                OutputVariance(base[i], gains[i], float(noise[i])),
                c0=1.0,
                generator=generator,
            )
        except UnreachableCorrelationError:
            rate = 1.0
        result[i : i + of_each_k] = rate
    return result


def _pcp_problem(
    centre: networks.Layers,
    spread: networks.Layers | None,
    x: Tensor,
    y: Tensor,
    slopes: Tensor,
    weights: Tensor,
    lam: Tensor,
    *,
    smallest: float,
    generator: torch.Generator,
) -> tuple[networks.Problem, Tensor]:
    """Return a problem with scales s^2 = smallest + exp(a), in units of sigma if that is 0."""
    n_layers = len(centre)
    many = {
        name: value.repeat_interleave(N_CHAINS, 0)
        for name, value in {"x": x, "y": y, "slopes": slopes, "lam": lam}.items()
    }
    noise_b = NOISE_SHARE * many["y"].double().var(1)

    def scales(state: Tensor) -> Tensor:
        square = torch.exp(state[:, 1:])
        if smallest:
            return torch.sqrt(smallest + square)
        return torch.sqrt(square) * torch.exp(state[:, :1])

    problem = networks.Problem(
        networks.repeated(centre, N_CHAINS),
        None if spread is None else networks.repeated(spread, N_CHAINS),
        many["x"],
        many["y"],
        networks.pcp_log_prior(many["slopes"], weights, many["lam"], noise_b),
        scales,
    )
    chains = len(many["x"])
    c = torch._sample_dirichlet(
        torch.ones(chains, n_layers, dtype=torch.float64), generator=generator
    )
    terms = DistanceTerms(weights, (many["slopes"] @ c[:, :, None])[..., 0])
    median = inverse_distance(math.log(2.0) / many["lam"], terms)
    log_scale = torch.log(median).clamp(-9.0, 1.0)
    log_sigma = torch.log(many["y"].double().std(1)) - 0.7
    start = torch.cat([log_sigma[:, None], log_scale[:, None] + torch.log(c)], 1)
    return problem, start


def bnn_problem(
    x: Tensor, y: Tensor, *, generator: torch.Generator, widths: Sequence[int]
) -> tuple[networks.Problem, Tensor]:
    """Return the problem of a network without a source, and start states of moderate scales."""
    many_x = x.repeat_interleave(N_CHAINS, 0)
    many_y = y.repeat_interleave(N_CHAINS, 0)
    centre = [
        torch.zeros(len(many_x), outputs, inputs + 1)
        for inputs, outputs in itertools.pairwise(widths)
    ]
    problem = networks.Problem(
        centre,
        None,
        many_x,
        many_y,
        networks.inverse_gamma_log_prior(NOISE_SHARE * many_y.double().var(1)),
        lambda state: torch.exp(0.5 * state[:, 1:]),
    )
    log_sigma = torch.log(many_y.double().std(1)) - 0.7
    log_tau = -torch.log(torch.tensor(widths[:-1], dtype=torch.float64))
    spread = 0.3 * torch.randn(len(many_x), len(log_tau), generator=generator, dtype=torch.float64)
    return problem, torch.cat([log_sigma[:, None], log_tau + spread], 1)


def run(scale: Scale, seed: int) -> Result:
    """Simulate all settings of table 2.1."""
    size = SIZES[scale]
    generator = torch.Generator().manual_seed(seed)
    sets = [Design(added=k) for k in ADDED for _ in range(size.replicates)]
    source_rows = rows_of(sets, SOURCE_ROWS, target=False, generator=generator)
    source = fit_source(source_rows, size.effort, widths=WIDTHS, generator=generator)
    rows: list[Row] = []
    rhats: dict[str, list[Floats]] = {}
    for n in size.target_rows:
        target = rows_of(sets, n, target=True, generator=generator)
        test = rows_of(sets, TEST_ROWS, target=True, generator=generator)
        methods = methods_of(
            source,
            target,
            test.x,
            size.effort,
            widths=WIDTHS,
            n_designs=len(ADDED),
            rates={"": None, RATE_ONE: 1.0},
            generator=generator,
        )
        result = predictions(methods, source, target, test.x)
        for (reading, method), prediction in result.items():
            rows += rows_of_method(reading, method, prediction, test, n, size.replicates)
            if len(prediction.draws) > 1:
                rhats.setdefault(method, []).append(_rhats(prediction.draws))
    mixed = "; ".join(
        f"{method} {np.quantile(np.concatenate(values), 0.95):.2f}"
        for method, values in rhats.items()
    )
    return Result(
        rows=rows,
        statements=statements_of(rows),
        reasons=REASONS,
        notes=[
            f"{size.replicates} data sets a setting (the paper: 500).",
            f"{size.effort.sentence} 95 % of the R-hats of f at test rows are below: {mixed}.",
            "lam is the rate at which output and label have the correlation 0.5, found on the "
            "first data set of every k.",
            "The argument of the cosine is damaged in print and read as 2 sum x / k.",
            "Coverage and width are those of 95 % intervals of the mean function, width = upper - "
            "lower in units of y.",
        ],
    )


def statements_of(rows: Sequence[Row]) -> list[Statement]:
    """Return what the printed table says of the methods' order, as means over its settings."""
    errors: dict[str, list[Row]] = {}
    for row in rows:
        if row.quantity == "mean squared error" and not row.reading:
            errors.setdefault(row.method, []).append(row)

    def less(first: str, second: str, among: str = "") -> Part:
        pairs = [
            (a, b)
            for a, b in zip(errors[first], errors[second], strict=True)
            if a.setting.startswith(among)
        ]
        return Part(
            what=f"{first} minus {second}, mean of {len(pairs)}",
            value=float(np.mean([a.value - b.value for a, b in pairs])),
            # Settings share their data sets.
            error=float(np.mean([math.hypot(a.error, b.error) for a, b in pairs])),
            n_values=pairs[0][0].n_values,
            high=0.0,
        )

    rivals = [method for method in COLUMNS if method != "BNN"]
    return [
        Statement(
            "BTL-PCP-PE has lower errors than TL1 and TL2.",
            [less("BTL-PCP-PE", "TL1"), less("BTL-PCP-PE", "TL2")],
        ),
        Statement(
            "BTL-PCP-PE has lower errors than BTL-PCP-VI.", [less("BTL-PCP-PE", "BTL-PCP-VI")]
        ),
        Statement(
            "BNN has the lowest errors at k = 15.",
            [less("BNN", other, "k = 15,") for other in rivals],
        ),
    ]


def rows_of_method(
    reading: str, method: str, prediction: Prediction, test: Rows, n: int, replicates: int
) -> list[Row]:
    """Return the rows of one method for one size of the target."""
    before = f"{reading}, " if reading else ""
    errors = (prediction.mean - test.mean).square().mean(1).double().numpy()
    values = {
        (reading, "mean squared error"): errors,
        (f"{before}{ROOT}", "mean squared error"): np.sqrt(errors),
    }
    if (draws := prediction.of_sets) is not None:
        low, high = np.quantile(draws.numpy(), [0.025, 0.975], axis=0)
        truth = test.mean.numpy()
        covered = ((low <= truth) & (truth <= high)).mean(1)
        width = (high - low).mean(1)
        amplitude = np.repeat([Design(added=k).amplitude for k in ADDED], replicates)
        values[reading, "coverage of 95 % intervals"] = covered
        values[reading, "width of 95 % intervals"] = width
        values[f"{before}{OVER_C}", "width of 95 % intervals"] = width / amplitude
    rows = []
    for (row_reading, quantity), by_set in values.items():
        for k, part in zip(ADDED, by_set.reshape(len(ADDED), replicates), strict=True):
            rows.append(
                mean_row(
                    part,
                    table=_table(method, quantity),
                    setting=f"k = {k}, n = {n}",
                    method=method,
                    quantity=quantity,
                    reading=row_reading,
                    published=_printed(method, quantity, k=k, n=n),
                )
            )
    return rows


def _table(method: str, quantity: str) -> str:
    if method not in COLUMNS:
        return ""
    return "table_2_1a" if quantity == "mean squared error" else "table_2_1b"


def _printed(method: str, quantity: str, *, k: int, n: int) -> dict[str, float]:
    table = _table(method, quantity)
    if not table:
        return {}
    cells = row_of(table, k=k, n=n)
    name = COLUMNS[method]
    if quantity == "mean squared error":
        return printed(cells, f"{name}_mse", f"{name}_se")
    if quantity.startswith("coverage"):
        return printed(cells, f"{name}_coverage", f"{name}_coverage_se")
    return printed(cells, f"{name}_width")


_UNITS = (
    "a constant has a mean squared error of 4, and the printed errors of fits to 30 rows alone are "
    "half of that, so that the table can hold roots of mean squared errors."
)
REASONS = {
    "TL1": _UNITS,
    "TL2": f"{_UNITS} At k = 0 it has the source's error, whose training the text leaves open.",
    "BNN": (
        f"{_UNITS} Its chains at this scale are short (see R-hat below), which can change error, "
        "coverage and width."
    ),
    "BTL-PCP-PE": (
        "errors may be roots, and widths in units of the cosine. The rule for lam has several "
        "readings."
    ),
    "BTL-PCP-VI": (
        "ours has lower errors than BTL-PCP-PE, and intervals that cover; the text reports the "
        "opposite. The text does not describe its variational fit of the source, and cites faster "
        "computing by variational inference also on the target; here the target is sampled."
    ),
}

STUDY = Study(
    name="table-2.1",
    title="Transfer between simulated regressions: errors, coverage and widths",
    source="Abba (2023), section 2.4, table 2.1",
    tables=("table_2_1a", "table_2_1b"),
    run=run,
    fault=METHODS_SWAPPED,
)
