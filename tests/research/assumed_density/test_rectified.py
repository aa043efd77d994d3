"""Moments of rectified normals against 60 digits, over a wide range of t."""

import mpmath as mp
import numpy as np
import pytest
import torch

from bandgap.research.assumed_density.rectified import rectified_moments

LARGE = np.concatenate([-np.logspace(6, -3, 120), [0.0], np.logspace(-3, 6, 120)])
AROUND_THE_SWITCH = np.linspace(-40.0, -5.0, 141)
T = np.unique(np.concatenate([LARGE, AROUND_THE_SWITCH, [-8.3, -25.0, -30.0]]))


def exact(t):
    """E b and Var b of a ~ N(t, 1), b = max(a, 0), as floats of 60 digits."""
    with mp.workdps(60):
        z = mp.mpf(float(t))
        phi = mp.npdf(z)
        below = mp.erfc(-z / mp.sqrt(2)) / 2
        mean = z * below + phi
        second = (z * z + 1) * below + z * phi
        return [float(mean), float(second - mean**2)]


@pytest.fixture(scope="module")
def reference():
    return np.array([exact(t) for t in T]).T


@pytest.mark.parametrize(
    ("kind", "bar"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("variance", [1.0, 1e-8, 1e4])
def test_rectified_moments_are_exact_to_rounding_of_the_variance(reference, kind, bar, variance):
    r = np.sqrt(variance)
    mean, spread = rectified_moments(
        torch.tensor(T * r, dtype=kind), torch.full((T.size,), variance, dtype=kind)
    )
    assert mean.dtype == spread.dtype == kind
    assert mean.isfinite().all() and spread.isfinite().all()
    assert (mean >= 0).all() and (spread >= 0).all()
    assert np.abs(spread.double().numpy() / variance - reference[1]).max() < bar
    assert (
        np.abs(mean.double().numpy() / r - reference[0]) < bar * np.maximum(1.0, np.abs(T))
    ).all()
