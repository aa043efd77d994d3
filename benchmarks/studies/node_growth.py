"""Figure 5.3 of Ott (2022): the number of nodes of binary Hollywood graphs as edges are added.

The printed curve is equation 5.8. It is compared with the mean of simulated graphs, and with the
exact mean. Graphs of a trained network, which the figure has too, are not generated.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import gammaln

from benchmarks.studies.figures import COLOURS
from benchmarks.studies.hollywood import HollywoodProcess
from benchmarks.studies.study import Fault, Part, Result, Row, Scale, Statement, Study, mean_row

PROCESS = HollywoodProcess(alpha=1.0, sigma=0.7)  # of the thesis
EDGES = {"smoke": (10, 50), "laptop": (10, 50, 200, 500), "paper": (10, 50, 200, 500)}
N_GRAPHS = {"smoke": 50, "laptop": 1000, "paper": 1000}
MANY_EDGES = (10**3, 10**5, 10**7)
SIGMAS = (0.3, 0.7)
NODES = "mean number of nodes"


def leading_term(process: HollywoodProcess, n_edges: int) -> float:
    """Return equation 5.8: Gamma(alpha + 1) / (sigma Gamma(alpha + sigma)) (2n)^sigma."""
    a = process.alpha
    s = process.sigma
    return float(np.exp(gammaln(a + 1) - gammaln(a + s)) / s * (2 * n_edges) ** s)


def run(scale: Scale, seed: int) -> Result:
    """Simulate graphs, and compare their numbers of nodes with equation 5.8."""
    generator = np.random.default_rng(seed)
    sizes = EDGES[scale]
    rows: list[Row] = []
    counts: dict[int, list[float]] = {}
    for n in sizes:
        counts[n] = [float(PROCESS.simulate(n, generator).n_nodes) for _ in range(N_GRAPHS[scale])]
        where: dict[str, Any] = {"setting": f"{n} edges", "quantity": NODES}
        rows += [
            mean_row(counts[n], method="simulated graphs", **where),
            Row(method="exact mean", value=PROCESS.expected_nodes(n), **where),
            Row(method="equation 5.8", value=leading_term(PROCESS, n), **where),
        ]
    simulated = [row for row in rows if row.method == "simulated graphs"]
    ratio = leading_term(PROCESS, MANY_EDGES[-1]) / PROCESS.expected_nodes(MANY_EDGES[-1])
    per_square = {
        sigma: [
            n / HollywoodProcess(PROCESS.alpha, sigma).expected_nodes(n) ** 2 for n in MANY_EDGES
        ]
        for sigma in SIGMAS
    }
    return Result(
        rows=rows,
        statements=[
            Statement(
                "Equation 5.8 is the expected number of nodes for many edges.",
                [Part(what="over the exact mean", value=ratio, low=0.999, high=1.001)],
                f"{MANY_EDGES[-1]:,} edges",
            ),
            Statement(
                "Equation 5.8 is the expected number of nodes at the sizes of the figure.",
                [
                    Part(
                        what=f"equation 5.8 minus simulated, {row.setting}",
                        value=leading_term(PROCESS, n) - row.value,
                        error=row.error,
                        n_values=row.n_values,
                        low=-0.01 * row.value,
                        high=0.01 * row.value,
                    )
                    for n, row in zip(sizes, simulated, strict=True)
                ],
                "read as within 1 %",
            ),
            Statement(
                "Graphs are sparse, with o(N^2) edges for N nodes, for all sigma from 0 to 1.",
                [
                    Part(
                        what=f"sigma = {sigma:g}: edges per squared number of nodes, ratio",
                        value=values[-1] / values[0],
                        high=1.0,
                    )
                    for sigma, values in per_square.items()
                ],
                f"at {MANY_EDGES[-1]:,} and {MANY_EDGES[0]:,} edges",
            ),
        ],
        notes=[
            f"{N_GRAPHS[scale]:,} graphs of each size with alpha = 1 and sigma = 0.7.",
            "Equation 5.8 is the leading term, which is too high by about alpha / sigma. N grows "
            "like n^sigma, so that graphs are sparse only for sigma above 1/2.",
        ],
        draw=lambda figure: draw_growth(figure, counts),
    )


def draw_growth(figure: Figure, counts: dict[int, list[float]]) -> None:
    """Draw nodes against edges: graphs, their mean and its middle 90 %, and both curves."""
    axes = figure.subplots()
    edges = np.arange(1, max(counts) + 1)
    exact = [PROCESS.expected_nodes(int(n)) for n in edges]
    leading = [leading_term(PROCESS, int(n)) for n in edges]
    axes.plot(edges, exact, color=COLOURS[0], label="exact mean")
    axes.plot(edges, leading, color=COLOURS[1], ls="--", label="equation 5.8")
    for n, values in counts.items():
        low, high = np.quantile(values, [0.05, 0.95])
        axes.plot([n, n], [low, high], color="#7A8086", lw=2, alpha=0.6)
        axes.plot(n, np.mean(values), "o", color="#000000", ms=5)
    axes.plot([], [], "o", color="#000000", label="mean of simulated graphs, bar: 90 % of them")
    axes.set(xlabel="edges", ylabel="nodes")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


STUDY = Study(
    name="pnn-figure-5.3",
    title="Number of nodes of binary Hollywood graphs as edges are added",
    source="Ott (2022), sections 5.3.1 and 5.4.1, equation 5.8, figure 5.3",
    run=run,
    fault=Fault(text="equation 5.8 1.1 times too large", factor=1.1),
    left_out="graphs of a trained network",
)
