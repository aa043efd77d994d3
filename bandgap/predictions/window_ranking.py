"""Which structures to compute next in order to reach a target window, chosen one after the other.

With draws d of the means and independent noise, structure i lies at least x inside the window with
the probability h_id(x). The best of the structures S lies at least x inside with the probability

    P_S(x) = 1 - mean_d prod_{i in S} (1 - h_id(x))

`chance` is P_S(0), the probability that at least one of them lies in the window. `improvement` is
the integral of P_S over x, the expected depth of the best of them: the expected improvement of a
batch over a gap at the end of the window (Ginsbourger, Le Riche and Carraro, 2010, section 3, with
a window in place of a bound). Each structure is the one that adds most to those above it. The gain
of a set is submodular, so that the total is at least 1 - 1/e of the best possible (Nemhauser,
Wolsey and Fisher, 1978). A structure that misses the window whenever those above it do adds
little: near twins are not all chosen. Loads no torch.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.predictions.window import Window, depth_nodes, normal_probability

Floats = NDArray[np.float64]
Goal = Literal["chance", "improvement"]

BATCH_NODES = 8  # nodes of the integral over the depth for a batch
_SMALLEST_GAIN = 1e-6  # below it, draws cannot tell gains apart


@dataclass(frozen=True, eq=False)
class WindowRanking:
    """Chosen structures, best first.

    `totals` are P_S(0), or the expected depth of the best in eV, of the structures up to each one.
    """

    rows: NDArray[np.int64]  # (k,)
    totals: Floats  # (k,)


def rank_for_window(
    means_eV: NDArray[np.floating],
    noise_variance: Floats,
    window: Window,
    *,
    goal: Goal,
    single_scores: Floats,
    count: int,
) -> WindowRanking:
    """Return the `count` structures that together are best for a window.

    Parameters
    ----------
    means_eV
        Draws of the means, (draw, n), in eV.
    noise_variance
        Expected noise variance of a label of each structure, (n,), in eV^2.
    window
        Target window.
    goal
        "chance" or "improvement", as in the module's description.
    single_scores
        Score of each structure alone, (n,). It decides where draws cannot tell gains apart.
    count
        Number of structures to choose.
    """
    if goal == "chance":
        depths, weights = np.zeros(1), np.ones(1)
    else:
        depths, weights = depth_nodes(window, BATCH_NODES)
    sds = np.sqrt(noise_variance)
    # (node, draw, n): float32, as the draws are
    misses = np.stack(
        [
            1.0
            - normal_probability(
                Window(window.lower_eV + depth, window.upper_eV - depth), means_eV, sds
            ).astype(np.float32)
            for depth in depths
        ]
    )
    n_draws, n = means_eV.shape
    all_miss = np.ones((depths.size, n_draws), dtype=np.float64)
    is_free = np.ones(n, dtype=bool)
    rows: list[int] = []
    totals: list[float] = []
    for _ in range(min(count, n)):
        # Mean over the draws of prod (1 - h) h, integrated over the depths.
        weighted = weights[:, None] * all_miss / n_draws
        gains = weighted.sum() - np.einsum("kd,kdn->n", weighted, misses)
        scores = gains if gains[is_free].max() > _SMALLEST_GAIN else single_scores
        row = int(np.argmax(np.where(is_free, scores, -np.inf)))
        is_free[row] = False
        all_miss *= misses[:, :, row]
        rows.append(row)
        totals.append(float(weights @ (1.0 - all_miss.mean(axis=1))))
    return WindowRanking(np.array(rows, dtype=np.int64), np.array(totals))
