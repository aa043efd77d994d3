"""The poster of Filippone and Engler: traditional linear solvers against ULISSE, and inference.

The poster's figures are lost, and it states no data. Here a Matern field of smoothness 1.5 at
random points of the unit square. Replicates of a gradient are one axis: conjugate gradients run for
all right-hand sides together, and a truncated solve is a weighted sum of its increments. The
posterior from `bandgap.research.unbiased_solves` is compared with Metropolis on the exact
likelihood.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from bandgap.inference.diagnostics import mean_error
from bandgap.research.unbiased_solves.conjugate_gradients import (
    TOLERANCE,
    KernelMatrix,
    Product,
)
from bandgap.research.unbiased_solves.langevin import Problem, UlisseConfig, sample_ulisse
from bandgap.research.unbiased_solves.series import Reading, Truncation
from bandgap.research.vecchia.gp import weak_priors
from bandgap.research.vecchia.likelihood import Theta
from benchmarks.studies.figures import COLOURS
from benchmarks.studies.study import Fault, Part, Result, Row, Scale, Statement, Study, mean_row

Floats = NDArray[np.float64]

TRUTH = Theta(1.0, 0.1, 1.5, 0.1)
# Where gradients are compared: far from the mode, so that the exact gradient is not near 0.
ELSEWHERE = Theta(0.6, 0.07, 1.5, 0.15)
FREE = (0, 1, 3)
NAMES = ("log sigma2", "log rho", "log tau2")
BETAS = (0.02, 0.05, 0.1, 0.2)
ALWAYS = 10
RANK = 20
COMPLETE = "CG to 1e-10"
READINGS: tuple[Reading, ...] = ("geometric", "quadratic")
SHORT = (0.1, 0.01)  # relative residuals at which a traditional solver may end early
NORM = "relative square norm of the gradient's error"
BIAS = "relative square norm of the gradient's bias"
PRODUCTS = "products with K of a solve"
MARKERS = {"CG": "o", "ULISSE geometric": "s", "ULISSE quadratic": "x"}
ESTIMATE = "posterior mean (in standard deviations from Metropolis)"
SPREAD = "posterior standard deviation (ratio to Metropolis)"


@dataclass(frozen=True, kw_only=True)
class Size:
    """Points, replicates of a gradient, draws of ULISSE's chains and of Metropolis."""

    n: int
    replicates: int
    draws: int
    metropolis: int


SIZES = {
    "smoke": Size(n=80, replicates=40, draws=60, metropolis=200),
    "laptop": Size(n=400, replicates=400, draws=1500, metropolis=4000),
    "paper": Size(n=1500, replicates=1000, draws=5000, metropolis=10_000),
}


@dataclass(frozen=True, eq=False)
class Series:
    """Increments (term, n, replicate) of the solutions for many right-hand sides.

    `residuals` (term + 1, replicate) are relative residuals before and after each term.
    """

    increments: Floats
    residuals: Floats

    def truncated(self, weights: Floats) -> Floats:
        """Return the sums (n, replicate) of increments with weights (term, replicate)."""
        return np.asarray(np.einsum("tnr,tr->nr", self.increments, weights))

    @property
    def solution(self) -> Floats:
        """The complete solutions (n, replicate)."""
        return np.asarray(self.increments.sum(0))


def series_of(kernel: KernelMatrix, right: Floats, precondition: Product | None) -> Series:
    """Run conjugate gradients for all right-hand sides (n, replicate) to convergence."""
    residual = right.copy()
    size = np.linalg.norm(right, axis=0)
    z = residual if precondition is None else precondition(residual)
    direction = z.copy()
    rz = (residual * z).sum(0)
    increments: list[Floats] = []
    relative = [np.ones(right.shape[1])]
    while relative[-1].max() > TOLERANCE and len(increments) < 5 * len(right):
        product = kernel(direction)
        # Converged columns have a zero direction, whose step is 0.
        step = np.divide(
            rz,
            (direction * product).sum(0),
            out=np.zeros_like(rz),
            where=relative[-1] > TOLERANCE,
        )
        increments.append(step * direction)
        residual = residual - step * product
        z = residual if precondition is None else precondition(residual)
        new = (residual * z).sum(0)
        direction = z + np.divide(new, rz, out=np.zeros_like(rz), where=rz > 0) * direction
        rz = new
        relative.append(np.linalg.norm(residual, axis=0) / size)
    return Series(np.array(increments), np.array(relative))


def random_weights(truncation: Truncation, terms: int, n: int, rng: np.random.Generator) -> Floats:
    """Return the weights (term, n) of n unbiased solves."""
    stops = np.array([truncation.stop(rng) for _ in range(n)])
    included = np.arange(terms)[:, None] < stops
    return np.asarray(included / truncation.inclusion(terms)[:, None])


@dataclass(frozen=True, eq=False)
class Gradients:
    """What all solvers share: a kernel, labels, signs (n, replicate) and complete series."""

    kernel: KernelMatrix
    y: Floats
    signs: Floats
    of_signs: Series
    of_y: Series

    def combine(self, traces: Floats, first: Floats, second: Floats) -> Floats:
        """Return gradients (replicate, 3) from solves for the signs and two for y, (n, ...)."""
        parts = [
            0.5 * (first * self.kernel.slope(j, second)).sum(0)
            - 0.5 * (traces * self.kernel.slope(j, self.signs)).sum(0)
            for j in FREE
        ]
        return np.stack(np.broadcast_arrays(*parts), -1)

    def exact(self) -> Floats:
        """Return the exact gradient (3,) from a dense inverse."""
        n = len(self.y)
        inverse = np.linalg.inv(self.kernel(np.eye(n)))
        solved = inverse @ self.y
        slopes = [self.kernel.slope(j, np.eye(n)) for j in FREE]
        return np.array(
            [0.5 * solved @ slope @ solved - 0.5 * (inverse * slope).sum() for slope in slopes]
        )

    def unbiased(self, truncation: Truncation, rng: np.random.Generator) -> Floats:
        """Return gradients (replicate, 3) from unbiased solves."""
        n = self.signs.shape[1]
        terms = len(self.of_signs.increments)
        traces = self.of_signs.truncated(random_weights(truncation, terms, n, rng))
        of_y = self.of_y.increments[..., 0]
        first, second = (of_y.T @ random_weights(truncation, len(of_y), n, rng) for _ in range(2))
        return self.combine(traces, first, second)

    def early(self, residual: float) -> tuple[Floats, float]:
        """Return gradients of solves that end at a relative residual, and their mean products."""
        weights = (self.of_signs.residuals[:-1] > residual).astype(np.float64)
        of_y = (self.of_y.residuals[:-1, 0] > residual).astype(np.float64)
        solved = self.of_y.truncated(of_y[:, None])
        gradients = self.combine(self.of_signs.truncated(weights), solved, solved)
        return gradients, float((weights.sum(0).mean() + of_y.sum()) / 2)


def run(scale: Scale, seed: int) -> Result:
    """Compare gradients of all solvers, and the posterior with Metropolis."""
    size = SIZES[scale]
    rng = np.random.default_rng([seed, size.n])
    points = rng.random((size.n, 2))
    dense = KernelMatrix(points, TRUTH)(np.eye(size.n))
    y = np.linalg.cholesky(dense) @ rng.standard_normal(size.n)
    rows: list[Row] = []
    unbiased = []
    worst = 0.0
    for title, rank in (("no preconditioner", 0), (f"pivoted Cholesky, rank {RANK}", RANK)):
        kernel = KernelMatrix(points, ELSEWHERE)
        precondition = kernel.preconditioner(rank) if rank else None
        signs = rng.choice((-1.0, 1.0), size=(size.n, size.replicates))
        gradients = Gradients(
            kernel,
            y,
            signs,
            series_of(kernel, signs, precondition),
            series_of(kernel, y[:, None], precondition),
        )
        exact = gradients.exact()
        complete = gradients.combine(
            gradients.of_signs.solution, gradients.of_y.solution, gradients.of_y.solution
        )
        terms = float(len(gradients.of_y.increments))
        rows += _rows(title, COMPLETE, complete, exact, terms)
        for residual in SHORT:
            early, products = gradients.early(residual)
            rows += _rows(title, f"CG to {residual:g}", early, exact, products)
        for reading in READINGS:
            for beta in BETAS:
                cut = Truncation(beta=beta, always=ALWAYS, reading=reading, most=int(terms) + 1)
                values = gradients.unbiased(cut, rng)
                name = f"ULISSE {reading}, beta {beta:g}"
                rows += _rows(title, name, values, exact, min(cut.expected, terms))
                z = (values.mean(0) - exact) / (values.std(0, ddof=1) / math.sqrt(len(values)))
                # Weights of the quadratic reading have no usable standard error.
                if reading == "geometric":
                    unbiased.append(float(np.abs(z).max()))
                    if rank:
                        worst = max(worst, float(((values - exact) ** 2).sum(1).mean()))
    relative = worst / float(exact @ exact)
    posterior_rows, apart = compare_posteriors(points, y, size, seed=seed)
    n_tests = 3 * len(unbiased)
    return Result(
        rows=[*rows, *posterior_rows],
        statements=[
            Statement(
                "The solution, and with it the gradient, is unbiased.",
                [Part(what="largest deviation in standard errors", value=max(unbiased), high=4.0)],
                f"{n_tests} means of {size.replicates} gradients, geometric reading",
            ),
            Statement(
                "The relative error of the gradient is small.",
                [Part(what="largest relative square norm", value=relative, high=0.25)],
                "with a preconditioner, geometric reading; read as small if below 1/4",
            ),
            _acceleration(rows, title),
            Statement(
                "SGLD with ULISSE is accurate for the posterior of the covariance's parameters.",
                [
                    Part(what="means apart in standard deviations", value=apart[0], high=0.3),
                    Part(what="standard deviations apart, relative", value=apart[1], high=0.25),
                ],
                "read as accurate below 0.3 and 25 %",
            ),
        ],
        notes=[
            f"{size.n} points; the poster states neither data nor numbers of a figure.",
            f"The first {ALWAYS} terms are always included. exp(-beta i) of the poster is read as "
            "the probability that a term is included (geometric) or that the series continues "
            "(quadratic); the weights of the second grow faster than the series converges.",
            "Errors contain those of one vector of random signs for the trace. The gradient needs "
            "two independent solves for y, which the poster does not say.",
            "The poster's norm lacks a square in the numerator; here |g - g~|^2 / |g|^2.",
        ],
        draw=lambda figure: draw(figure, rows),
    )


def _acceleration(rows: Sequence[Row], title: str) -> Statement:
    """Return whether ULISSE needs half the products of complete solves for about their error."""
    values = {(row.setting, row.quantity): row.value for row in rows if row.method == title}
    complete = values[COMPLETE, NORM]
    solvers = [f"ULISSE geometric, beta {beta:g}" for beta in BETAS]
    products = {
        name: values[name, PRODUCTS] for name in solvers if values[name, NORM] < 1.25 * complete
    }
    least = min(products.values(), default=math.inf)
    cut = f"CG to {SHORT[-1]:g}"
    return Statement(
        "ULISSE is faster than a complete solve for about the same error of the gradient.",
        [Part(what="share of the products", value=least / values[COMPLETE, PRODUCTS], high=0.5)],
        f"{title}, of {', '.join(products) or 'none'}; {cut}, which is biased by "
        f"{values[cut, BIAS]:.1g}: {values[cut, PRODUCTS]:.0f} products. Faster is read as half "
        "the products at an error below 1.25 times that of complete solves",
    )


def _rows(title: str, solver: str, values: Floats, exact: Floats, products: float) -> list[Row]:
    size = float(exact @ exact)
    squares = ((values - exact) ** 2).sum(1) / size
    difference = values.mean(0) - exact
    return [
        mean_row(squares, setting=solver, method=title, quantity=NORM),
        Row(
            setting=solver,
            method=title,
            quantity=BIAS,
            value=float(difference @ difference) / size,
            error=float(squares.mean()) / len(squares),
        ),
        Row(setting=solver, method=title, quantity=PRODUCTS, value=products),
    ]


def compare_posteriors(
    points: Floats, y: Floats, size: Size, *, seed: int
) -> tuple[list[Row], tuple[float, float]]:
    """Return rows of the posterior, and the largest differences of means and of spreads."""
    priors = weak_priors(TRUTH)
    problem = Problem(points, np.ones((len(y), 1)), y, priors)
    config = UlisseConfig(draws=size.draws, warmup=max(20, size.draws // 10))
    ulisse = sample_ulisse(problem, TRUTH, config, seed=seed).eta
    exact = metropolis(problem, size.metropolis, seed=seed)
    sd = exact.std(axis=(0, 1))
    errors = np.hypot(mean_error(ulisse), mean_error(exact)) / sd
    apart = (ulisse.mean(axis=(0, 1)) - exact.mean(axis=(0, 1))) / sd
    ratio = ulisse.std(axis=(0, 1)) / sd
    rows = [
        Row(
            setting=name,
            method="SGLD with ULISSE",
            quantity=ESTIMATE,
            value=float(apart[j]),
            error=float(errors[j]),
        )
        for j, name in enumerate(NAMES)
    ] + [
        Row(setting=name, method="SGLD with ULISSE", quantity=SPREAD, value=float(ratio[j]))
        for j, name in enumerate(NAMES)
    ]
    return rows, (float(np.abs(apart).max()), float(np.abs(ratio - 1.0).max()))


def metropolis(problem: Problem, draws: int, *, seed: int, chains: int = 2) -> Floats:
    """Return draws (chain, draw, 3) of the exact posterior by a random walk, beta integrated out.

    The first quarter of the iterations adapts the covariance of the moves.
    """
    rng = np.random.default_rng([seed, 0x3E])
    distances = cdist(problem.points, problem.points)
    both = np.column_stack([problem.y, problem.covariates])

    def density(eta: Floats) -> float:
        sigma2, rho, tau2 = np.exp(eta)
        x = distances / rho
        lower = np.linalg.cholesky(sigma2 * (1.0 + x) * np.exp(-x) + tau2 * np.eye(len(problem.y)))
        solved = solve_triangular(lower, both, lower=True)
        gram = solved[:, 1:].T @ solved[:, 1:]
        cross = solved[:, 1:].T @ solved[:, 0]
        misfit = solved[:, 0] @ solved[:, 0] - cross @ np.linalg.solve(gram, cross)
        log_det = 2.0 * np.log(np.diag(lower)).sum() + np.linalg.slogdet(gram)[1]
        prior = sum(problem.priors[j].value(e) for j, e in zip(FREE, eta, strict=True))
        return float(prior - 0.5 * (misfit + log_det))

    paths = []
    for _ in range(chains):
        eta = np.log(np.array(TRUTH))[list(FREE)]
        value = density(eta)
        root: Floats = 0.3 * np.eye(3)
        path: list[Floats] = []
        for i in range(draws + draws // 3):
            if i in (draws // 12, draws // 6, draws // 3):
                covariance = np.cov(np.array(path[i // 2 :]).T) + 1e-6 * np.eye(3)
                factor = np.linalg.cholesky(covariance)
                root = np.asarray(2.38 / math.sqrt(3) * factor, dtype=np.float64)
            new = np.asarray(eta + root @ rng.standard_normal(3), dtype=np.float64)
            new_value = density(new)
            if math.log(rng.random()) < new_value - value:
                eta = new
                value = new_value
            path.append(eta)
        paths.append(path[draws // 3 :])
    return np.array(paths)


def draw(figure: Figure, rows: list[Row]) -> None:
    """Draw the error of the gradient over the products of a solve."""
    panels = figure.subplots(1, 2, sharey=True, squeeze=False)[0]
    titles = list(dict.fromkeys(row.method for row in rows))
    for axes, title in zip(panels, titles, strict=True):
        values = {(row.setting, row.quantity): row for row in rows if row.method == title}
        for solver in dict.fromkeys(row.setting for row in rows):
            kind = solver.partition(",")[0] if solver.startswith("ULISSE") else "CG"
            norm = values[solver, NORM]
            axes.errorbar(
                [values[solver, PRODUCTS].value],
                [norm.value],
                yerr=[3.0 * norm.error],
                fmt=MARKERS[kind],
                ms=4,
                color=COLOURS[list(MARKERS).index(kind)],
            )
        axes.set(xlabel=PRODUCTS, yscale="log", title=title)
        axes.title.set_fontsize(8)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(NORM, fontsize=8)
    handles = [
        Line2D([], [], marker=MARKERS[kind], ls="", ms=4, color=colour, label=kind)
        for kind, colour in zip(MARKERS, COLOURS, strict=False)
    ]
    figure.legend(handles=handles, fontsize=7, loc="outside lower center", ncols=3, frameon=False)


STUDY = Study(
    name="ulisse",
    title="Traditional linear solvers against unbiased truncated ones, and the posterior",
    source="Filippone and Engler (2015), poster",
    run=run,
    fault=Fault(text="a bias of five standard errors", factor=5.0, method="deviation"),
    left_out="the figures of the poster, which are lost",
)
