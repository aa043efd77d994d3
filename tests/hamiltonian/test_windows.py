"""Stan's windows, its regularised variances, and dual averaging of several chains."""

import math
from itertools import pairwise

import pytest
import torch

from bandgap.foundation.config import from_dict, to_dict
from bandgap.foundation.errors import ConfigError
from bandgap.inference.network.dual_averaging import dual_averaging
from tests.hamiltonian import windows
from tests.hamiltonian.densities import standard_normal
from tests.hamiltonian.leapfrog import (
    Phase,
    draw_momentum,
    energy,
    evaluate,
    leapfrog_step,
    reasonable_step,
)
from tests.hamiltonian.windows import Adaptation, AdaptationConfig, slow_windows


@pytest.mark.parametrize(
    "warmup, marks",
    [
        (1000, (75, 100, 150, 250, 450, 950)),  # as printed in Stan's manual
        (500, (75, 100, 150, 250, 450)),
        (150, (75, 100)),
        (100, (15, 90)),
        (20, (3, 18)),
        (19, ()),
        (1, ()),
    ],
    ids=str,
)
def test_windows_are_those_of_stan(warmup, marks):
    assert slow_windows(warmup) == marks


@pytest.mark.parametrize("warmup", range(20, 3000, 37))
def test_windows_double_and_end_before_the_last_fast_part(warmup):
    marks = slow_windows(warmup)
    lengths = [b - a for a, b in pairwise(marks)]
    assert all(b == 2 * a for a, b in pairwise(lengths[:-1]))
    assert marks[0] > 0 and warmup - marks[-1] == (50 if warmup >= 150 else int(0.1 * warmup))
    assert len(lengths) == 1 or lengths[-1] >= 2 * lengths[-2]


def visited(n, *, seed=0):
    """Return positions (n, 3 chains, 4 dimensions), every chain around another point far from 0."""
    noise = torch.randn(n, 3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return 1e6 + noise * torch.tensor([0.1, 1.0, 10.0, 100.0]) + torch.arange(3.0)[:, None]


def after(positions, *, pooled):
    state = windows.begin(positions[0], step=0.1)
    for q in positions:
        state = windows.follow_positions(state, q)
    return windows.end_window(state, pooled=pooled)


@pytest.mark.parametrize("n", [2, 30])
def test_inverse_mass_is_the_regularised_variance_of_each_chain(n):
    q = visited(n)
    expected = n / (n + 5) * q.var(0) + 5 / (n + 5) * 1e-3
    torch.testing.assert_close(after(q, pooled=False).inverse_mass, expected, rtol=1e-9, atol=0)


def test_pooled_inverse_mass_is_that_of_all_positions_together():
    q = visited(30)
    variance = q.reshape(90, 4).var(0)
    expected = (90 / 95 * variance + 5 / 95 * 1e-3).expand(3, 4)
    torch.testing.assert_close(after(q, pooled=True).inverse_mass, expected, rtol=1e-9, atol=0)


def test_next_window_forgets_the_last_one():
    first = after(visited(30), pooled=False)
    state = first
    for q in visited(25, seed=1):
        state = windows.follow_positions(state, q)
    again = windows.end_window(state, pooled=False).inverse_mass
    torch.testing.assert_close(
        again, after(visited(25, seed=1), pooled=False).inverse_mass, rtol=1e-9, atol=0
    )


def test_window_of_one_position_has_the_mass_of_the_regularisation():
    torch.testing.assert_close(
        after(visited(1), pooled=False).inverse_mass, torch.full((3, 4), 5e-3 / 6).double()
    )


def test_dual_averaging_of_several_chains_is_that_of_each_alone():
    accepts = torch.rand(50, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    state = windows.begin(visited(1)[0], step=0.3)
    single = [dual_averaging(0.3, target=0.7) for _ in range(3)]
    for accept in accepts:
        state = windows.follow_acceptance(state, accept, target=0.7, pooled=False)
        single = [one.update(float(p)) for one, p in zip(single, accept, strict=True)]
    steps = torch.tensor([one.step for one in single], dtype=torch.float64)
    final_steps = torch.tensor([one.final for one in single], dtype=torch.float64)
    torch.testing.assert_close(state.step, steps, rtol=1e-12, atol=0)
    torch.testing.assert_close(state.final, final_steps, rtol=1e-12, atol=0)


def test_pooled_chains_share_a_step_that_follows_their_mean_acceptance():
    state = windows.begin(visited(1)[0], step=0.3)
    single = dual_averaging(0.3, target=0.8)
    for _ in range(10):
        state = windows.follow_acceptance(
            state, torch.tensor([0.2, 0.9, 1.0], dtype=torch.float64), target=0.8, pooled=True
        )
        single = single.update(0.7)
    torch.testing.assert_close(
        state.step, torch.full((3,), single.step, dtype=torch.float64), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("start", [1e-6, 0.5, 1e4])
@pytest.mark.parametrize("exact_mass", [False, True], ids=["unit mass", "exact mass"])
def test_first_step_is_next_to_the_target_acceptance_in_every_chain(start, exact_mass):
    """Acceptance is above 0.8 on one side of the step only, for widths 0.001, 1 and 1000."""
    widths = torch.tensor([1e-3, 1.0, 1e3]).double()[:, None].expand(3, 50)
    mass = widths**2 if exact_mass else torch.ones_like(widths)

    def density(q):
        return standard_normal(q / widths)

    at = evaluate(density, widths)
    step = reasonable_step(
        density,
        at,
        step=torch.full((3,), start).double(),
        inverse_mass=mass,
        generator=torch.Generator().manual_seed(0),
    )
    start_phase = Phase(at, draw_momentum(at.q, mass, generator=torch.Generator().manual_seed(0)))

    def good(factor):
        end = leapfrog_step(density, start_phase, step=factor * step, inverse_mass=mass)
        return torch.exp(energy(start_phase, mass) - energy(end, mass)) > 0.8

    grown = good(0.5) & ~good(1.0)
    shrunk = good(1.0) & ~good(2.0)
    assert bool((grown | shrunk).all())
    assert not exact_mass or float(step.max() / step.min()) <= 4.0


def test_state_survives_arrays():
    state = after(visited(5), pooled=False)
    arrays = state.to_arrays()
    assert all(isinstance(value, torch.Tensor) for value in arrays.values())
    again = Adaptation.from_arrays(arrays)
    assert all(
        torch.equal(a, b) for a, b in zip(arrays.values(), again.to_arrays().values(), strict=True)
    )
    assert math.isclose(float(again.step[0]), 0.1)


@pytest.mark.parametrize("setting", [{"step": "slow"}, {"mass": "dense"}], ids=str)
def test_config_refuses_unknown_settings(setting):
    with pytest.raises(
        ConfigError, match="adaptation: .*Accepted: step adapted or fixed, mass unit or diagonal"
    ):
        AdaptationConfig(**setting)
    with pytest.raises(ConfigError, match="Accepted: "):
        from_dict(AdaptationConfig, to_dict(AdaptationConfig()) | setting)
