"""Figure 5.3 of Ott (2022): the number of nodes of binary Hollywood graphs as edges are added.

The printed curve is equation 5.8. It is compared with the mean of simulated graphs, and with the
exact mean. Graphs of a trained network, which the figure has too, are not generated.
"""

import numpy as np
from scipy.special import gammaln

from benchmarks.studies.figures import draw_curves
from benchmarks.studies.hollywood import HollywoodProcess
from benchmarks.studies.study import Key, Statement, Values, mean_part, study_of

PROCESS = HollywoodProcess(alpha=1.0, sigma=0.7)  # of the thesis
MANY_EDGES = (10**3, 10**7)
SIGMAS = (0.3, 0.7)
NODES = "mean number of nodes"
OF_MANY = "mean number of nodes for many edges"
SIMULATED = "simulated graphs"


def leading_term(n_edges: int) -> float:
    """Return equation 5.8: Gamma(alpha + 1) / (sigma Gamma(alpha + sigma)) (2n)^sigma."""
    a = PROCESS.alpha
    s = PROCESS.sigma
    return float(np.exp(gammaln(a + 1) - gammaln(a + s)) / s * (2 * n_edges) ** s)


def compute(seed: int, *, edges: tuple[int, ...], n_graphs: int) -> Values:
    """Simulate graphs, and compare their numbers of nodes with equation 5.8."""
    generator = np.random.default_rng(seed)
    values: Values = {}
    for n, quantity in (*((n, NODES) for n in edges), (MANY_EDGES[-1], OF_MANY)):
        setting = f"edges = {n}"
        values[Key(setting, "exact mean", quantity)] = np.array([PROCESS.expected_nodes(n)])
        values[Key(setting, "equation 5.8", quantity)] = np.array([leading_term(n)])
    for n in edges:
        nodes = [float(PROCESS.simulate(n, generator).n_nodes) for _ in range(n_graphs)]
        values[Key(f"edges = {n}", SIMULATED, NODES)] = np.array(nodes)
    return values


def statements(values: Values) -> list[Statement]:
    """Return the statements on equation 5.8 and on sparsity."""
    fewest, most = MANY_EDGES
    simulated = {key.setting: part for key, part in values.items() if key.method == SIMULATED}

    def edges_per_square(sigma: float, n: int) -> float:
        return n / HollywoodProcess(PROCESS.alpha, sigma).expected_nodes(n) ** 2

    return [
        Statement(
            "Equation 5.8 is the expected number of nodes for many edges.",
            [
                mean_part(
                    "over the exact mean",
                    values[Key(f"edges = {most}", "equation 5.8", OF_MANY)]
                    / values[Key(f"edges = {most}", "exact mean", OF_MANY)],
                    low=0.999,
                    high=1.001,
                )
            ],
            f"{most:,} edges",
        ),
        Statement(
            "Numbers of nodes remain close to equation 5.8 (figure 5.3).",
            [
                mean_part(
                    f"equation 5.8 over simulated, {setting}",
                    # Its mean is the ratio, its spread that of the first-order error.
                    values[Key(setting, "equation 5.8", NODES)]
                    * (2.0 - part / part.mean())
                    / part.mean(),
                    low=0.9,
                    high=1.1,
                )
                for setting, part in simulated.items()
                if setting != "edges = 10"
            ],
            "read as within 10 %, for at least 50 edges, as the graphs of the thesis have",
        ),
        Statement(
            "Graphs are sparse, with o(N^2) edges for N nodes, for all sigma from 0 to 1.",
            [
                mean_part(
                    f"sigma = {sigma:g}: edges per squared number of nodes, ratio",
                    np.array([edges_per_square(sigma, most) / edges_per_square(sigma, fewest)]),
                    high=1.0,
                )
                for sigma in SIGMAS
            ],
            f"at {most:,} and {fewest:,} edges",
        ),
    ]


STUDY = study_of("pnn-figure-5.3", compute, statements=statements, draw=draw_curves(NODES, "edges"))
