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
little: near twins are not all chosen.

Where the labels contain metals, a gap is not normal given a draw. The chances then follow from the
quantiles q_i of the gap, by a Gaussian copula. The normal score of gap i given draw d is

    N(rho_i u_id, 1 - rho_i^2),     rho_i^2 = var_d(m_id) / (var_d(m_id) + v_i)

u_id is the mean m_id in units of its standard deviation over the draws, v_i the noise variance. The
chance of each structure alone is then that of its quantiles. Loads no torch.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bandgap.predictions.table import LEVELS
from bandgap.predictions.window import (
    Window,
    depth_nodes,
    normal_probability,
    probability_below,
)

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
    quantiles_eV: Floats | None = None,
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
    quantiles_eV
        Quantiles of the gaps at `LEVELS`, (199, n), where the gaps are not normal given a draw.
    """
    if goal == "chance":
        depths, weights = np.zeros(1), np.ones(1)
    else:
        depths, weights = depth_nodes(window, BATCH_NODES)
    windows = [Window(window.lower_eV + depth, window.upper_eV - depth) for depth in depths]
    if quantiles_eV is None:
        sds = np.sqrt(noise_variance)
        chances = [normal_probability(narrow, means_eV, sds) for narrow in windows]
    else:
        chances = [
            chances_by_copula(narrow, means_eV, noise_variance, quantiles_eV=quantiles_eV)
            for narrow in windows
        ]
    # (node, draw, n): float32, as the draws are
    misses = np.stack([1.0 - chance.astype(np.float32) for chance in chances])
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


def scaled_to(
    means_eV: NDArray[np.floating], noise_variance: Floats, sds_eV: Floats
) -> tuple[Floats, Floats]:
    """Return draws (draw, n) and noise variances (n,) whose gaps have given standard deviations.

    A calibrator changes the standard deviations of gaps and keeps their means. Deviations of the
    draws from their mean and noise are scaled alike, so that correlations stay.

    Parameters
    ----------
    means_eV, noise_variance
        As in `rank_for_window`, without a calibrator.
    sds_eV
        Standard deviations of the gaps, (n,), in eV.
    """
    means = means_eV.astype(np.float64)
    average = means.mean(axis=0)
    factor = sds_eV / np.sqrt(means.var(axis=0) + noise_variance)
    return average + factor * (means - average), factor**2 * noise_variance


def chances_by_copula(
    window: Window,
    means_eV: NDArray[np.floating],
    noise_variance: Floats,
    *,
    quantiles_eV: Floats,
) -> Floats:
    """Return the probability (draw, n) that each gap lies in a window given each draw.

    Parameters are those of `rank_for_window`; the module's description has the formula.
    """
    means = means_eV.astype(np.float64)
    variance = means.var(axis=0) + noise_variance
    shift = (means - means.mean(axis=0)) / np.sqrt(variance)  # rho_i u_id
    spread = np.sqrt(noise_variance / variance)

    def below(probability: Floats) -> Floats:
        result: Floats = ndtr((ndtri(probability) - shift) / spread)
        return result

    upper = below(probability_below(quantiles_eV, LEVELS, window.upper_eV, inclusive=True))
    if window.lower_eV == 0:
        return upper
    return upper - below(probability_below(quantiles_eV, LEVELS, window.lower_eV))
