"""Tables 5.1 and 5.3 of Ott (2022): synthetic graphs, and graphs that the edge network generates.

Table 5.1 has the mean numbers of nodes and edges of the sets. Table 5.3 has the distances of
generated graphs from a test set; the networks are those of `benchmarks.graphs`, and the same ones
with a single step of training. The directed sets are not made here, and DeepGMG is not trained.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.graphs import SETS, GraphsBenchmark, run_graphs
from benchmarks.studies.published_tables import cell
from benchmarks.studies.study import Key, Statement, Values, mean_part, settings_of, study_of

NAMES = {"cycles": "Cycles", "ladders": "Ladders", "barabasi-albert": "BA"}
COLUMNS = {"mean number of nodes": "mean_nodes", "mean number of edges": "mean_edges"}
METHODS = {"plain": "without times", "times": "with times"}
UNTRAINED = ", one step"
DENSITIES = "densities (KS)"
QUANTITIES = {
    "degrees (MMD)": "degree",
    "clustering coefficients (MMD)": "cluster",
    "Laplacian spectra (MMD)": "spectral",
    DENSITIES: "ks_density",
}


def sizes_of_graphs(seed: int, *, n: int) -> Values:
    """Recompute mean numbers of nodes and edges of n graphs of each synthetic set."""
    values: Values = {}
    for name in NAMES:
        graphs = SETS[name](n, np.random.default_rng([seed, len(values)]))
        numbers = ([graph.n_nodes for graph in graphs], [len(graph) for graph in graphs])
        for quantity, part in zip(COLUMNS, numbers, strict=True):
            values[Key(name, "graphs", quantity)] = np.array(np.mean(part))
    return values


def printed_size(key: Key) -> Mapping[str, Any]:
    """Return the printed mean, which is that of 40 splits of 25 random graphs."""
    fields = cell("pnn_table_5_1", COLUMNS[key.quantity], set=NAMES[key.setting])
    return fields | {"printed_n": 40}


def on_sizes(values: Values) -> list[Statement]:
    """Return what the table says of cycles."""
    nodes, edges = (values[Key("cycles", "graphs", quantity)] for quantity in COLUMNS)
    return [
        Statement(
            "Cycles have as many edges as nodes.",
            [mean_part("edges minus nodes", edges - nodes, low=-0.005, high=0.005)],
        )
    ]


def distances(
    seed: int, *, n_steps: int, sets: tuple[str, ...] = tuple(NAMES), **sizes: int
) -> Values:
    """Train networks, and compare the graphs that they generate."""
    values: Values = {}
    for ending, steps in (("", n_steps), (UNTRAINED, 1)):
        config = GraphsBenchmark(**sizes, n_steps=steps, seed=seed)
        for row in run_graphs(config, sets, tuple(METHODS)):
            if row.graphs in METHODS:
                method = METHODS[row.graphs] + ending
                for quantity, distance in zip(QUANTITIES, row.distances, strict=True):
                    values[Key(row.set_name, method, quantity)] = np.array(distance)
    return values


def printed_distance(key: Key, column: str = "") -> Mapping[str, Any]:
    """Return the printed distance of the same network, or of another column."""
    if key.method.endswith(UNTRAINED):
        return {}
    name = column or ("time" if key.method == METHODS["times"] else "notime")
    place = {"set": NAMES[key.setting], "metric": QUANTITIES[key.quantity]}
    return cell("pnn_table_5_3", f"{name}_mean", f"{name}_se", **place)


def on_distances(values: Values) -> list[Statement]:
    """Return whether the distances are below those printed for DeepGMG."""
    settings = settings_of(values, DENSITIES)
    minus = {
        method: np.array(
            [
                [
                    values[key] - printed_distance(key, "deepgmg")["printed"]
                    for key in (Key(setting, method, quantity) for setting in settings)
                ]
                for quantity in QUANTITIES
            ]
        )  # (quantity, set, split)
        for method in METHODS.values()
    }
    note = "DeepGMG as printed, without its standard errors"
    return [
        *(
            Statement(
                f"Overall, graphs {method} are nearer to those of the test set than DeepGMG's.",
                [mean_part("mean over sets and MMDs", part[:-1].mean((0, 1)))],
                note,
            )
            for method, part in minus.items()
        ),
        Statement(
            "Densities of the graphs are nearer to those of the test set than DeepGMG's.",
            [
                mean_part(f"{setting}: {method} minus DeepGMG", of_set)
                for method, part in minus.items()
                for setting, of_set in zip(settings, part[-1], strict=True)
            ],
            note,
        ),
    ]


STUDIES = (
    study_of("pnn-5.1", sizes_of_graphs, printed=printed_size, statements=on_sizes),
    study_of("pnn-5.3", distances, printed=printed_distance, statements=on_distances),
)
