"""The benchmark `posterior`: densities and quantities of both samplers, figures, resuming."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import BandgapError
from bandgap.inference.network.chain import Record
from bandgap.networks.perceptron import layer_gradient_norms
from bandgap.priors import penalized_complexity as pcp
from benchmarks import posterior
from benchmarks.chain_processes import ChainRun, run_chains
from benchmarks.posterior import (
    PosteriorBenchmark,
    compare_sides,
    has_converged,
    side_figures,
)
from benchmarks.posterior_chain import PredictingNetwork, ProductChain
from benchmarks.posterior_problem import PosteriorProblem
from tests.unit.inference.network.problems import plain, raw, state_of

N = 8
P = 5
HIDDEN = (4, 3)


@pytest.fixture(scope="module")
def problem():
    theta_hat, x, y = raw(N, P, hidden=HIDDEN, seed=1)
    theta_hat = [layer.float().double() for layer in theta_hat]
    params = {f"weight.{i + 1}": layer[:, :-1] for i, layer in enumerate(theta_hat)}
    params |= {f"bias.{i + 1}": layer[:, -1] for i, layer in enumerate(theta_hat)}
    return PosteriorProblem(
        tuple(layer.float().numpy() for layer in theta_hat),
        x.numpy(),
        y.numpy(),
        np.random.default_rng(2).normal(size=(3, P)),
        layer_gradient_norms(params, x).numpy(),
        noise_b=0.2,
    )


def wide_problem(problem):
    """The same problem with fewer rows than inputs, which do not span the input space."""
    return dataclasses.replace(problem, x=problem.x[:3], y=problem.y[:3], alpha=problem.alpha[:3])


def draw_state(problem, seed):
    rng = np.random.default_rng(seed)
    z = {f"z{i + 1}": rng.normal(size=layer.shape) for i, layer in enumerate(problem.theta_hat)}
    return z | {
        "log_tau": rng.normal() - 2.0,
        "log_sigma": 0.3 * rng.normal(),
        "w": rng.normal(size=3),
    }


def theta_of(problem, state):
    c = np.exp(state["w"]) / np.exp(state["w"]).sum()
    scales = np.sqrt(np.exp(state["log_tau"]) * c)
    return c, [
        torch.from_numpy(layer + s * state[f"z{i + 1}"])
        for i, (layer, s) in enumerate(zip(problem.theta_hat, scales, strict=True))
    ]


def plain_log_density(problem, state):
    """Abba (2023), section 2.3.3, with the Jacobians of log tau, log sigma and w."""
    c, theta = theta_of(problem, state)
    variance = np.exp(2 * state["log_sigma"])
    f = plain(theta, torch.from_numpy(problem.x)).numpy()
    rates = torch.from_numpy(problem.alpha @ c / variance)
    terms = pcp.DistanceTerms(rates.new_full((rates.shape[0],), 1.0 / rates.shape[0]), rates)
    tau = torch.tensor(np.exp(state["log_tau"]))
    value = float(pcp.log_density(tau, terms, lam=problem.lam)) + state["log_tau"]
    value += -3.0 * np.log(variance) - problem.noise_b / variance + 2.0 * state["log_sigma"]
    value += (problem.c0 * state["w"] - np.exp(state["w"])).sum()
    value -= 0.5 * sum((state[f"z{i + 1}"] ** 2).sum() for i in range(3))
    return value - len(f) * state["log_sigma"] - 0.5 * ((problem.y - f) ** 2).sum() / variance


def test_density_for_numpyro_agrees_with_a_plain_formula(problem):
    pytest.importorskip("numpyro")
    from benchmarks.numpyro_btl import JointDensity

    density = JointDensity(problem, "all")
    states = [draw_state(problem, seed) for seed in range(4)]
    difference = [float(density(state)) - plain_log_density(problem, state) for state in states]
    # The density is computed in float32.
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=2e-2)


def test_density_in_the_row_space_differs_by_the_prior_outside_of_it(problem):
    pytest.importorskip("numpyro")
    import jax

    from benchmarks.numpyro_btl import JointDensity

    narrow = wide_problem(problem)
    basis = narrow.network().basis.numpy().astype(np.float64)
    difference = []
    f_errors = []
    for seed in range(3):
        state = draw_state(narrow, seed)
        inside = state | {"z1": state["z1"] @ basis}
        outside = state["z1"] - inside["z1"] @ basis.T
        in_row_space = JointDensity(narrow, "row space")
        in_all_inputs = JointDensity(narrow, "all")
        prior_outside = -0.5 * (outside**2).sum()
        difference.append(float(in_row_space(inside)) + prior_outside - float(in_all_inputs(state)))
        quantities = np.asarray(in_all_inputs.quantities(state, jax.random.key(0)))
        f_errors.append(quantities[5:] - plain_f(narrow, state))
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=2e-2)
    np.testing.assert_allclose(f_errors, 0.0, atol=1e-4)


def plain_f(problem, state):
    return plain(theta_of(problem, state)[1], torch.from_numpy(problem.x_test)).numpy()


def test_predictions_from_row_space_coordinates_are_those_of_the_weights(problem):
    """There are more rows than inputs, so that the row space is the whole input space."""
    assert problem.test_inputs().outside.shape == (3, 0)
    net = problem.network()
    prior = problem.scale_prior()
    state = draw_state(problem, 3)
    _, theta = theta_of(problem, state)
    row = [state["log_tau"] - 2 * state["log_sigma"], state["log_sigma"], *state["w"]]
    z = [torch.from_numpy(state[f"z{i + 1}"])[None].float() for i in range(2)]
    record = Record(
        [z[0] @ net.basis, z[1]], theta[2].double(), state_of(row), *(torch.zeros(1),) * 4
    )
    f = PredictingNetwork(problem).predict(record, prior, generator=torch.Generator())
    np.testing.assert_allclose(f[0].numpy(), plain_f(problem, state), atol=1e-4)


def test_inner_products_inside_and_outside_the_row_space_add_up(problem):
    """Then weights outside the row space have their prior variance in predictions."""
    narrow = wide_problem(problem)
    test = narrow.test_inputs()
    wide = np.concatenate([narrow.x_test, np.ones((3, 1))], 1)
    inner = test.coordinates @ test.coordinates.T + test.outside @ test.outside.T
    np.testing.assert_allclose(inner, wide @ wide.T, atol=1e-10)
    assert test.outside.shape[1] > 0


@pytest.mark.slow
def test_chains_run_in_processes_until_the_condition_is_met(problem):
    run = run_chains(
        ProductChain,
        problem,
        seeds=[1, 2],
        warmup=20,
        limit_s=300.0,
        enough=lambda draws: draws.shape[1] >= 50,
        on_progress=lambda seconds: None,
    )
    n_chains, n_draws, n_quantities = run.draws.shape
    assert (n_chains, n_quantities) == (2, len(problem.names))
    assert n_draws >= 50
    assert run.sampling_s > 0 and run.warmup_s > 0 and np.isfinite(run.draws).all()
    np.testing.assert_allclose(run.draws[:, :, 2:5].sum(-1), 1.0)


@pytest.mark.slow
def test_time_limit_during_warmup_is_an_error(problem):
    with pytest.raises(BandgapError, match="a chain had no draw after warm-up. Raise --minutes"):
        run_chains(
            ProductChain,
            problem,
            seeds=[1, 2],
            warmup=10**6,
            limit_s=0.5,
            enough=lambda draws: True,
            on_progress=lambda seconds: None,
        )


def figures(*, seconds, shift=0.0, names=("tau", "sigma", "c1", "f1", "f2")):
    draws = np.random.default_rng(0).normal(size=(4, 500, len(names))) + shift
    return side_figures(ChainRun(draws, 1.0, 10.0, seconds, 20.0), names)


def test_samplers_are_compared_by_smallest_ess_and_by_means():
    ours = figures(seconds=10.0)
    theirs = figures(seconds=100.0, shift=1.0)
    assert set(ours["ess"]) == {"tau", "sigma", "c1", "prediction"}
    comparison = compare_sides(ours, theirs)
    assert comparison["ratio"] == pytest.approx(10.0)
    assert comparison["ratio_with_warmup"] == pytest.approx(110.0 / 20.0)
    assert all(score < -20 for score in comparison["z"].values())
    assert comparison["z_predictions_rms"] > 20


def finished(**settings):
    config = PosteriorBenchmark(**settings)
    sides = {name: figures(seconds=10.0) for name in posterior.SIDES}
    settings = {key: value for key, value in dataclasses.asdict(config).items() if key != "repeats"}
    return config, {
        "settings": settings,
        "cores": 2,
        "torch": "2",
        "jax": "0",
        "numpyro": "0",
        "repeats": [sides] * config.repeats,
    }


def test_side_has_converged_if_smallest_ess_and_every_rhat_are_good_enough():
    names = ("tau", "sigma", "c1", "c2", "f1", "f2")
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 300, len(names)))
    assert has_converged(draws, names, 100.0)
    assert not has_converged(draws[:, :15], names, 10.0)
    assert not has_converged(draws, names, 5000.0)
    shift_of_last = rng.normal(size=(4, 1, 1)) * np.eye(len(names))[-1]
    assert not has_converged(draws + 0.3 * shift_of_last, names, 10.0)  # R-hat of one prediction
