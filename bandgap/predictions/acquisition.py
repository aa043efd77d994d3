r"""Which structures to compute next: how much one more label would lower the error of all predictions.

f (n,) are the means at the n structures without a label, K their posterior covariance; a label is y_i = f_i + e_i with
expected noise variance s_i^2. The best linear prediction of f_j from y_i has the error K_jj - K_ij^2 / (K_ii + s_i^2),
so that a label of structure i lowers the mean squared error over all n by

    R_i = (1 / n) sum_j K_ij^2 / (K_ii + s_i^2)

That is the criterion of Cohn, Ghahramani and Jordan (1996), section 2: the variance of the learner (eq. 4) averaged
over reference points, in the closed form that it has for Gaussian processes (Seo, Wallat, Graepel and Obermayer, 2000).
It is exact where f and the noise are normal; elsewhere the conditional mean does no worse than the linear prediction.

K is known by D draws of f: K = S = A'A / m, m = D - 1, A (D, n) centred. Squares of its entries are biased upwards by
the sampling error: with E S_ij^2 = K_ij^2 (1 + 1 / m) + K_ii K_jj / m and E S_ii S_jj = K_ii K_jj + 2 K_ij^2 / m of the
Wishart distribution, (m S_ij^2 - S_ii S_jj) m / ((m - 1) (m + 2)) is unbiased for K_ij^2.

Several structures are chosen one after the other, each as if those before it had been labelled: what is like a chosen
one then gains little. Loads no torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]

MIN_DRAWS = 8  # below which a covariance of draws says nothing


@dataclass(frozen=True, eq=False)
class JointMeans:
    """Joint distribution of the means of n structures, and the noise of their labels.

    The covariance is root' root, `degrees` that of the sample that it comes from (infinite where it is known exactly).
    """

    root: Floats  # (r, n), eV
    noise_variance: Floats  # (n,), eV^2
    degrees: float = np.inf

    def __post_init__(self) -> None:
        if self.root.ndim != 2 or self.noise_variance.shape != self.root.shape[1:]:
            raise InputError(
                f"joint means: root has shape {self.root.shape}, noise_variance {self.noise_variance.shape}. "
                "Accepted: (r, n) and (n,)."
            )
        if not (np.isfinite(self.root).all() and np.isfinite(self.noise_variance).all()):
            raise InputError("joint means: values are not finite. Leave out refused structures.")
        if not ((self.noise_variance > 0).all() and self.degrees > 1):
            raise InputError(
                f"joint means: noise variances from {self.noise_variance.min(initial=np.inf):g}, {self.degrees:g} "
                "degrees. Accepted: noise variances above 0, more than one degree."
            )

    def __len__(self) -> int:
        return int(self.root.shape[1])

    @property
    def variance(self) -> Floats:
        """Posterior variance of the means, (n,), in eV^2."""
        result: Floats = (self.root**2).sum(axis=0)
        return result


@dataclass(frozen=True, eq=False)
class Ranking:
    """Chosen structures, best first: their places, the score of each when it was chosen, and what is left after it.

    `left` is the mean posterior variance of the means of all n structures once these have been labelled, in eV^2: what
    it was `before`, less the reductions so far.
    """

    rows: NDArray[np.int64]  # (k,)
    scores: Floats  # (k,) expected reduction in eV^2, or standard deviation in eV
    left: Floats  # (k,)
    before: float


def joint_means(means_eV: ArrayLike, noise_variance: ArrayLike) -> JointMeans:
    """Return the joint distribution of draws (draw, n) in eV with noise variances (n,) in eV^2.

    Raises InputError below `MIN_DRAWS` draws and on values that are not finite.
    """
    draws = np.asarray(means_eV, dtype=np.float64)
    if draws.ndim != 2 or draws.shape[0] < MIN_DRAWS:
        raise InputError(f"means have shape {draws.shape}. Accepted: (draw, structure) with {MIN_DRAWS} draws or more.")
    degrees = draws.shape[0] - 1
    root = (draws - draws.mean(axis=0)) / np.sqrt(degrees)
    return JointMeans(root, np.asarray(noise_variance, dtype=np.float64), float(degrees))


def rank_by_reduction(joint: JointMeans, count: int, *, spread: bool = True) -> Ranking:
    """Return the `count` structures whose labels lower the mean squared error most.

    With `spread` every score is given the labels of those before it, without it that of a single label. A step costs
    as much as one product with the draws.
    """
    return _rank(joint, count, spread=spread, by_sd=False)


def rank_by_sd(joint: JointMeans, count: int, *, spread: bool = True) -> Ranking:
    """Return the `count` structures whose new gap is least certain, with `spread` given the labels of those before."""
    return _rank(joint, count, spread=spread, by_sd=True)


def _rank(joint: JointMeans, count: int, *, spread: bool, by_sd: bool) -> Ranking:
    state, n = _Conditioned(joint), len(joint)
    before = float(joint.variance.mean()) if n else 0.0
    rows, scores, reductions = [], [], []
    first = state.sd() if by_sd else state.reduction()
    unlabelled = np.ones(n, dtype=bool)
    for _ in range(min(count, n)):
        reduction = state.reduction()
        score = first if not spread else state.sd() if by_sd else reduction
        row = int(np.argmax(np.where(unlabelled, score, -np.inf)))
        unlabelled[row] = False
        rows.append(row)
        scores.append(float(score[row]))
        reductions.append(float(reduction[row]))
        state.label(row)
    left = np.maximum(before - np.cumsum(reductions), 0.0)
    return Ranking(np.array(rows, dtype=np.int64), np.array(scores), left, before)


class _Conditioned:
    """The joint distribution given the labels so far, whatever they turn out to be; mutable, alive for one ranking.

    With M the matrix for which root' M root is the conditional covariance, `moved` is M root, and q_i = sum_j K_ij^2 is
    kept up to date by a rank-one change: no n x n matrix is ever formed.
    """

    def __init__(self, joint: JointMeans) -> None:
        self._root, self._noise, self._degrees = joint.root, joint.noise_variance, joint.degrees
        self._moved = joint.root.copy()
        self._inner = joint.root @ joint.root.T
        self._variance = joint.variance
        self._squares: Floats = (self._moved * (self._inner @ self._moved)).sum(axis=0)

    def sd(self) -> Floats:
        """Return the standard deviation of a new observation, (n,)."""
        return np.sqrt(self._variance + self._noise)

    def reduction(self) -> Floats:
        """Return R (n,), sampling error of the covariance taken off, never below zero."""
        m, squares = self._degrees, self._squares
        if np.isfinite(m):
            own = self._variance * self._variance.sum()
            squares = (m * squares - own) * m / ((m - 1.0) * (m + 2.0))
        return np.maximum(squares, 0.0) / (squares.size * (self._variance + self._noise))

    def label(self, row: int) -> None:
        """Condition on the label of a structure."""
        column = self._moved[:, row].copy()
        ratio = (self._root.T @ column) / (self._variance[row] + self._noise[row])
        crossed = self._moved.T @ (self._inner @ column)
        self._squares = np.maximum(self._squares - 2.0 * ratio * crossed + ratio**2 * self._squares[row], 0.0)
        self._variance = np.maximum(self._variance - ratio * (self._root.T @ column), 0.0)
        self._moved -= np.outer(column, ratio)
