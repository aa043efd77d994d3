"""Dual averaging finds the step size at which a known acceptance curve has the target value."""

import math

import numpy as np
import pytest

from bandgap.inference.network.dual_averaging import dual_averaging


def adapt(curve, *, start, target, n=2000, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    state = dual_averaging(start, target=target)
    for _ in range(n):
        state = state.update(float(np.clip(curve(state.step) + noise * rng.normal(), 0.0, 1.0)))
    return state


@pytest.mark.parametrize("target", [0.65, 0.8, 0.95])
@pytest.mark.parametrize("start", [1e-4, 0.1, 10.0])
def test_step_converges_to_the_one_with_the_target_acceptance(target, start):
    """Within 5 %: the pull towards ten times the first step fades as 1 / sqrt(iterations)."""
    state = adapt(lambda step: math.exp(-(step**2)), start=start, target=target)
    assert state.final == pytest.approx(math.sqrt(-math.log(target)), rel=0.05)


def test_averaged_step_is_steadier_than_the_last_under_noise():
    expected = math.sqrt(-math.log(0.8))

    def curve(step):
        return math.exp(-(step**2))

    states = [adapt(curve, start=0.1, target=0.8, noise=0.2, seed=s) for s in range(20)]
    last = np.std([math.log(s.step / expected) for s in states])
    averaged = np.std([math.log(s.final / expected) for s in states])
    assert averaged < last
    assert averaged < 0.1
