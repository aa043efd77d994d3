"""Ranking of unlabelled structures against brute force on a Gaussian model."""

import numpy as np
import pytest

from bandgap.predictions.acquisition import JointMeans, joint_means, rank

N = 12


def model(seed: int = 0, *, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """A covariance of smooth functions at places on a line, two of them the same, and noise
    variances.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 4, n))
    x[1] = x[0]
    covariance = 0.5 * np.exp(-0.5 * (x[:, None] - x) ** 2) * np.outer(1 + 0.1 * x, 1 + 0.1 * x)
    return covariance, rng.uniform(0.02, 0.2, n)


def root_of(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, 0))[:, None] * vectors.T


def given_labels(covariance: np.ndarray, noise: np.ndarray, rows: list[int]) -> np.ndarray:
    """The covariance of f given labels at `rows`, by the textbook formula."""
    cross = covariance[:, rows]
    return covariance - cross @ np.linalg.solve(
        covariance[np.ix_(rows, rows)] + np.diag(noise[rows]), cross.T
    )


def expected_reduction(joint: JointMeans) -> np.ndarray:
    """By how much a label of each structure alone lowers the mean squared error of all, (n,)."""
    ranking = rank(joint, len(joint), spread=False)
    return ranking.scores[np.argsort(ranking.rows)]


def test_expected_reduction_equals_brute_force_conditioning_on_each_label() -> None:
    covariance, noise = model()
    expected = [
        np.mean(np.diag(covariance) - np.diag(given_labels(covariance, noise, [i])))
        for i in range(len(covariance))
    ]
    np.testing.assert_allclose(
        expected_reduction(JointMeans(root_of(covariance), noise)), expected, rtol=1e-10
    )


@pytest.mark.parametrize("by_sd", [False, True])
def test_rank_equals_greedy_brute_force(by_sd) -> None:
    covariance, noise = model()
    ranking = rank(JointMeans(root_of(covariance), noise), 6, by_sd=by_sd)
    ranked: list[int] = []
    for row, score, remaining in zip(
        ranking.rows, ranking.scores, ranking.remaining_variance, strict=True
    ):
        now = given_labels(covariance, noise, ranked) if ranked else covariance
        if by_sd:
            every = np.sqrt(np.diag(now) + noise)
        else:
            every = np.array(
                [np.mean(np.diag(now) - np.diag(given_labels(now, noise, [i]))) for i in range(N)]
            )
        every[ranked] = -np.inf
        assert row == np.argmax(every)
        assert score == pytest.approx(every[row], rel=1e-8)
        ranked.append(int(row))
        assert remaining == pytest.approx(
            np.mean(np.diag(given_labels(covariance, noise, ranked))), rel=1e-8
        )
    assert ranking.initial_variance == pytest.approx(np.mean(np.diag(covariance)))


def test_rank_with_spread_defers_duplicates_of_chosen_structures() -> None:
    covariance = np.diag([1.0, 1.0, 0.9, 0.8])
    noise = np.full(4, 0.01)
    covariance[0, 1] = covariance[1, 0] = 1.0
    joint = JointMeans(root_of(covariance), noise)
    assert set(rank(joint, 2, spread=False).rows) == {0, 1}
    assert list(rank(joint, 3).rows) == [0, 2, 3]
    assert list(rank(joint, 3, by_sd=True).rows) == [0, 2, 3]


def test_expected_reduction_few_draws_is_unbiased() -> None:
    covariance, noise = model()
    root = root_of(covariance)
    rng = np.random.default_rng(2)
    expected = expected_reduction(JointMeans(root, noise)) * (np.diag(covariance) + noise)
    simulated = []
    for _ in range(3000):
        joint = joint_means(rng.standard_normal((20, N)) @ root, noise)
        simulated.append(expected_reduction(joint) * (joint.variance + noise))
    error = np.std(simulated, axis=0) / np.sqrt(len(simulated))
    # False alarm below 1e-4.
    assert np.all(np.abs(np.mean(simulated, axis=0) - expected) < 4.5 * error)
