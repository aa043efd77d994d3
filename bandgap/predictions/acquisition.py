r"""Which structures to compute next: how much one more label would lower the error of all
predictions.

f (n,) are the means at the n structures without a label, and K is their posterior covariance. A
label is y_i = f_i + e_i with expected noise variance s_i^2. The best linear prediction of f_j from
y_i has the error K_jj - K_ij^2 / (K_ii + s_i^2). A label of structure i therefore lowers the mean
squared error over all n structures by

    R_i = (1 / n) sum_j K_ij^2 / (K_ii + s_i^2)

This is the criterion of Cohn, Ghahramani and Jordan (1996), section 2: the variance of the learner
(eq. 4) averaged over reference points, in its closed form for Gaussian processes (Seo, Wallat,
Graepel and Obermayer, 2000). It is exact where f and the noise are normal. Elsewhere the
conditional mean is at least as good as the linear prediction.

K is estimated from D draws of f: K = S = A'A / m, m = D - 1, A (D, n) centred. The squares of its
entries are biased upwards by the sampling error. For the Wishart distribution,
E S_ij^2 = K_ij^2 (1 + 1 / m) + K_ii K_jj / m and E S_ii S_jj = K_ii K_jj + 2 K_ij^2 / m. Therefore
(m S_ij^2 - S_ii S_jj) m / ((m - 1) (m + 2)) is an unbiased estimate of K_ij^2.

Several structures are chosen one after the other, each conditional on the labels of the ones before
it. A structure similar to one already chosen then has a small expected reduction. Loads no torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MIN_DRAWS = 8  # fewer draws do not estimate a covariance


@dataclass(frozen=True, eq=False)
class JointMeans:
    """Joint distribution of the means of n structures, and the noise of their labels.

    The covariance is root' root. `degrees` are the degrees of freedom of the sample that it was
    estimated from, infinite where the covariance is exact.
    """

    root: Floats  # (r, n), eV
    noise_variance: Floats  # (n,), eV^2
    degrees: float = np.inf

    def __len__(self) -> int:
        return int(self.root.shape[1])

    @property
    def variance(self) -> Floats:
        """Posterior variance of the means, (n,), in eV^2."""
        result: Floats = (self.root**2).sum(axis=0)
        return result


@dataclass(frozen=True, eq=False)
class Ranking:
    """Chosen structures, best first: their rows, and the score of each when it was chosen.

    `remaining_variance` is the mean posterior variance of the means of all n structures, in eV^2,
    once the structures up to this one have been labelled. `initial_variance` is the same before any
    label.
    """

    rows: NDArray[np.int64]  # (k,)
    scores: Floats  # (k,) expected reduction in eV^2, or standard deviation in eV
    remaining_variance: Floats  # (k,)
    initial_variance: float


def joint_means(means_eV: ArrayLike, noise_variance: ArrayLike) -> JointMeans:
    """Return the joint distribution of the means of n structures, estimated from draws.

    Parameters
    ----------
    means_eV
        Draws of the means, (draw, n), in eV, at least `MIN_DRAWS`.
    noise_variance
        Expected noise variance of a label of each structure, (n,), in eV^2.
    """
    draws = np.asarray(means_eV, dtype=np.float64)
    degrees = draws.shape[0] - 1
    root = (draws - draws.mean(axis=0)) / np.sqrt(degrees)
    return JointMeans(root, np.asarray(noise_variance, dtype=np.float64), float(degrees))


def rank(joint: JointMeans, count: int, *, spread: bool = True, by_sd: bool = False) -> Ranking:
    """Return the `count` structures whose labels lower the mean squared error most.

    Parameters
    ----------
    joint
        Joint distribution of the means of the candidates.
    count
        Number of structures to choose. Each costs about as much as one product with the draws.
    spread
        Whether each score is conditional on the labels of the structures chosen before it. Without
        it, every score is that of a single label.
    by_sd
        Choose by the standard deviation of a new gap instead.
    """
    state = _ConditionalDistribution(joint)
    n = len(joint)
    initial_variance = float(joint.variance.mean()) if n else 0.0
    rows = []
    scores = []
    reductions = []
    initial_score = state.sd() if by_sd else state.reduction()
    unlabelled = np.ones(n, dtype=bool)
    for _ in range(min(count, n)):
        reduction = state.reduction()
        conditional_score = state.sd() if by_sd else reduction
        score = conditional_score if spread else initial_score
        row = int(np.argmax(np.where(unlabelled, score, -np.inf)))
        unlabelled[row] = False
        rows.append(row)
        scores.append(float(score[row]))
        reductions.append(float(reduction[row]))
        state.label(row)
    remaining_variance = np.maximum(initial_variance - np.cumsum(reductions), 0.0)
    return Ranking(
        np.array(rows, dtype=np.int64), np.array(scores), remaining_variance, initial_variance
    )


class _ConditionalDistribution:
    """The joint distribution conditional on the labels so far. Mutable; made for one ranking.

    The conditional covariance does not depend on the values of the labels. It is root' M root with
    a matrix M, and `_projected` is M root. The sums of squares q_i = sum_j K_ij^2 are updated by a
    rank-one change, so that no n x n matrix is formed.
    """

    def __init__(self, joint: JointMeans) -> None:
        self._root = joint.root
        self._noise = joint.noise_variance
        self._degrees = joint.degrees
        self._projected = joint.root.copy()
        self._inner = joint.root @ joint.root.T
        self._variance = joint.variance
        self._squares: Floats = (self._projected * (self._inner @ self._projected)).sum(axis=0)

    def sd(self) -> Floats:
        """Return the standard deviation of a new observation, (n,)."""
        return np.sqrt(self._variance + self._noise)

    def reduction(self) -> Floats:
        """Return R (n,), corrected for the sampling error of the covariance, at least zero."""
        m = self._degrees
        squares = self._squares
        if np.isfinite(m):
            product_sum = self._variance * self._variance.sum()
            squares = (m * squares - product_sum) * m / ((m - 1.0) * (m + 2.0))
        return np.maximum(squares, 0.0) / (squares.size * (self._variance + self._noise))

    def label(self, row: int) -> None:
        """Condition on the label of a structure."""
        column = self._projected[:, row].copy()
        ratio = (self._root.T @ column) / (self._variance[row] + self._noise[row])
        cross_products = self._projected.T @ (self._inner @ column)
        squares = self._squares - 2.0 * ratio * cross_products + ratio**2 * self._squares[row]
        self._squares = np.maximum(squares, 0.0)
        self._variance = np.maximum(self._variance - ratio * (self._root.T @ column), 0.0)
        self._projected -= np.outer(column, ratio)
