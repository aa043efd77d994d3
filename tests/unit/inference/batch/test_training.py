"""Networks of a stack are trained as each alone, with any kernel, chunk size and coordinates."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.inference.batch.kernels import kernel_of, make_stack, outputs
from bandgap.inference.batch.penalties import Isotropic
from bandgap.inference.batch.rows import first_layer
from bandgap.inference.batch.training import Cycles, chunk_size, train_stack
from tests.unit.inference.batch.stacks import EXACT, by_torch, problem, trained_stack
from tests.unit.inference.network.problems import CPU, raw

SGD = replace(EXACT, optimiser="sgd", learning_rate=0.01)


def close(first, second, atol=1e-10):
    """Float64 with some hundred operations an update."""
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


def full_first(layer, weights, theta_hat):
    """theta_1 (S, width, p + 1) of C (S, r, width)."""
    basis = (
        torch.eye(theta_hat.shape[1], dtype=torch.float64) if layer.basis is None else layer.basis
    )
    return theta_hat + (basis @ weights[0]).transpose(1, 2)


@pytest.mark.parametrize(
    "hidden", [(4, 3), (5,), (4, 3, 2)], ids=["two hidden", "one hidden", "three hidden"]
)
@pytest.mark.parametrize("name", ["bmm", "wide"])
def test_written_kernels_have_the_gradients_of_the_reference(name, hidden):
    """Two folds of different rank, the samples unevenly spread over them."""
    layer, between, samples, (theta_hat, x) = problem(samples=5, hidden=hidden)
    half = np.arange(12) < 6
    other = first_layer(theta_hat[0], x.numpy(), trained=half, coordinates="row_space")
    inputs = torch.stack(
        [torch.nn.functional.pad(k.inputs, (0, 12 - k.inputs.shape[1])) for k in (layer, other)]
    )
    base = torch.stack([layer.base, other.base])
    rows = torch.tensor([[3, 0, 7, 7, 11]]).expand(5, 5)
    results = []
    for kernel in (name, "vmap"):
        stack = make_stack(
            inputs,
            base,
            fold=torch.tensor([0, 0, 0, 1, 1]),
            omega=torch.from_numpy(samples.omega),
            labels=torch.from_numpy(samples.labels),
            upper=[
                *[b.expand(5, -1, -1) for b in between],
                torch.from_numpy(samples.heads)[:, :, None],
            ],
            kernel=kernel,
        )
        generator = torch.Generator().manual_seed(0)
        for weight in stack.weights:
            weight.add_(
                torch.randn(weight.shape, generator=generator, dtype=torch.float64), alpha=0.1
            )
        kernel_of(kernel)(stack, rows)
        results.append(stack.gradients)
    close(*results)
    assert min(float(gradient.abs().max()) for gradient in results[0]) > 1e-3


@pytest.mark.parametrize(
    "config", [EXACT, SGD, replace(SGD, clip=0.2)], ids=["adam", "sgd", "sgd, clipped"]
)
def test_stacked_networks_are_those_of_torch_one_after_the_other(config):
    full = problem(coordinates="full")
    layer, between, samples, (theta_hat, x) = full
    weights = trained_stack([layer], between, samples, config)
    for m in range(3):
        expected = by_torch(theta_hat, x, samples, m, config=config)
        trained_layers = [
            full_first(layer, weights, theta_hat[0])[m],
            *[w[m].T for w in weights[1:]],
        ]
        close(trained_layers, expected)


@pytest.mark.parametrize(
    "n, p", [(12, 20), (20, 6)], ids=["more inputs than rows", "more rows than inputs"]
)
@pytest.mark.parametrize(
    "clip, decay", [(0.0, 0.0), (0.2, 0.0), (0.0, 0.3)], ids=["plain", "clipped", "L2SP"]
)
def test_row_space_is_exact_for_sgd(n, p, clip, decay):
    config = replace(SGD, clip=clip, epochs=20)
    layer, between, samples, (theta_hat, x) = problem(n, p)
    penalty = (
        Isotropic(torch.full((3,), decay, dtype=torch.float64), [0.0, *between]) if decay else None
    )
    weights = trained_stack([layer], between, samples, config, penalty=penalty)
    assert layer.inputs.shape[1] == min(n, p + 1)
    for m in range(3):
        expected = by_torch(theta_hat, x, samples, m, config=config, weight_decay=decay)
        trained_layers = [
            full_first(layer, weights, theta_hat[0])[m],
            *[w[m].T for w in weights[1:]],
        ]
        close(trained_layers, expected)
        assert float((expected[0] - theta_hat[0]).norm()) > 1e-2


@pytest.mark.parametrize(
    "order, kernel", [("own", "bmm"), ("own", "vmap"), ("shared", "wide"), ("shared", "bmm")]
)
def test_sample_does_not_depend_on_the_number_of_samples_or_chunks(order, kernel):
    layer, between, samples, _ = problem(samples=5)
    config = replace(EXACT, order=order, kernel=kernel)
    together = trained_stack([layer], between, samples, config)
    alone = trained_stack([layer], between, samples.of(np.array([3])), config)
    small = replace(config, max_memory_GB=1.5e-5)
    assert chunk_size([layer], between, config=small, device=CPU) == 2
    cut = trained_stack([layer], between, samples, small)
    close([w[3:4] for w in together], alone, atol=1e-9)
    close(together, cut, atol=1e-9)


def test_samples_of_several_folds_are_those_of_each_fold_alone():
    layer, between, samples, (theta_hat, x) = problem(samples=4)
    half = np.arange(12) < 7
    other = first_layer(theta_hat[0], x.numpy(), trained=half, coordinates="row_space")
    mixed = replace(samples, layer=np.array([1, 0, 1, 0]), folds=np.array([2, -1, 2, -1]))
    together = trained_stack([layer, other], between, mixed)
    alone = trained_stack(
        [other], between, replace(mixed.of(np.array([0, 2])), layer=np.zeros(2, dtype=int))
    )
    assert alone[0].shape[1] == 7
    close([together[0][[0, 2], :7], *[w[[0, 2]] for w in together[1:]]], alone, atol=1e-9)
    assert (together[0][[0, 2], 7:] == 0).all()


def test_rows_without_weight_leave_no_trace():
    trained = np.arange(12) < 9
    layer, between, samples, _ = problem(trained=trained)
    other = replace(samples, labels=np.where(trained, samples.labels, 1e3))
    close(trained_stack([layer], between, samples), trained_stack([layer], between, other), atol=0)


def test_shared_order_is_that_of_the_first_sample():
    layer, between, samples, _ = problem()
    own_order, shared = (
        trained_stack([layer], between, samples, replace(EXACT, order=o)) for o in ("own", "shared")
    )
    close([w[0] for w in own_order], [w[0] for w in shared])
    assert float((own_order[0][1] - shared[0][1]).abs().max()) > 1e-6


def test_precision_of_float32_predicts_within_a_thousandth():
    layer, between, samples, _ = problem()
    f = [
        outputs(
            layer.inputs,
            layer.base,
            [w.double() for w in trained_stack([layer], between, samples, config)],
        )
        for config in (SGD, replace(SGD, precision="float32"))
    ]
    close(f[:1], f[1:], atol=1e-3)


def test_first_layer_in_the_row_space_meets_its_rows_as_in_full():
    theta_hat, x, _ = raw(10, 25)
    trained = np.arange(10) < 8
    full, small = (
        first_layer(theta_hat[0], x.numpy(), trained=trained, coordinates=c)
        for c in ("full", "row_space")
    )
    assert full.basis is None and small.basis.shape == (26, 8)
    torch.testing.assert_close(small.inputs[:8] @ small.basis.T, full.inputs[:8])
    torch.testing.assert_close(small.base, full.inputs @ theta_hat[0].T)
    torch.testing.assert_close(small.inputs[8:], full.inputs[8:] @ small.basis)


def test_cycles_without_temperature_are_restarts_of_sgd_with_momentum():
    """One cycle is SGD whose velocity holds the learning rate; two leave two sets of weights."""
    layer, between, samples, _ = problem()
    one = train_stack(
        [layer],
        between,
        samples,
        config=SGD,
        seed=0,
        device=CPU,
        cycles=Cycles(2, 0.0),
        phase="cycles",
    )
    assert len(one) == 2
    assert float((one[0][0] - one[1][0]).abs().max()) > 1e-4
    again = trained_stack([layer], between, samples, SGD, cycles=Cycles(1, 0.0))
    close(one[0], again, atol=0)


def test_noise_of_a_sample_does_not_depend_on_the_others():
    layer, between, samples, _ = problem()
    hot = Cycles(1, 5.0)
    together = trained_stack([layer], between, samples, SGD, cycles=hot)
    alone = trained_stack([layer], between, samples.of(np.array([2])), SGD, cycles=hot)
    cold = trained_stack([layer], between, samples, SGD, cycles=Cycles(1, 0.0))
    close([w[2:] for w in together], alone, atol=1e-9)
    assert float((together[0] - cold[0]).abs().max()) > 1e-3


@pytest.mark.parametrize("epochs", [1, 30])  # after one, weights are still finite
def test_training_that_diverges_is_refused_with_the_learning_rate(epochs):
    layer, between, samples, _ = problem()
    wild = replace(SGD, learning_rate=1e6, epochs=epochs)
    with pytest.raises(
        ConfigError, match=r"3 of 3 networks .* diverged at a learning rate of 1000000.0. Take"
    ):
        trained_stack([layer], between, samples, wild)
