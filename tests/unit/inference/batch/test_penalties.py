"""Penalties add the gradients of Gaussian priors.

The reference of PTYL is a dense covariance, that of L2SP a pull to the start.
"""

from dataclasses import replace

import numpy as np
import torch

from bandgap.inference.batch.kernels import make_stack
from bandgap.inference.batch.penalties import PTYL, Isotropic
from bandgap.networks.swag import Snapshots, snapshot_prior

WIDTHS = (5, 4, 3)  # 39 hidden parameters with biases


def random_stack(samples, *, seed=0):
    """A stack with random weights and gradients of zero, its first layer in full coordinates."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    p, width, last = WIDTHS
    stack = make_stack(
        drawn(1, 4, p + 1),
        drawn(1, 4, width),
        fold=torch.zeros(samples, dtype=torch.long),
        omega=drawn(samples, 4),
        labels=drawn(samples, 4),
        upper=[drawn(samples, width + 1, last), drawn(samples, last + 1, 1)],
        kernel="bmm",
    )
    stack.weights[0].copy_(drawn(samples, p + 1, width))
    return stack, snapshots_of(drawn), drawn(p + 1, width)


def snapshots_of(drawn):
    """Random moments of hidden and output layers; a prior of hidden layers ignores the latter."""
    p, width, last = WIDTHS
    shapes = {
        "weight.1": (width, p),
        "bias.1": (width,),
        "weight.2": (last, width),
        "bias.2": (last,),
    }
    shapes |= {"weight.3": (1, last), "bias.3": (1,)}
    mean, diagonal = ({n: drawn(*s) for n, s in shapes.items()} for _ in range(2))
    squares = {n: value**2 for n, value in diagonal.items()}
    return Snapshots(mean, squares, {n: drawn(6, *s) for n, s in shapes.items()})


def pull(snapshots, first, *, gammas, n):
    """The prior of samples with these gammas and numbers of rows, at eps 0.1."""
    values, which = torch.unique(torch.tensor(gammas, dtype=torch.float64), return_inverse=True)
    priors = [
        snapshot_prior(snapshots, gamma=g, eps=0.1, layers=(1, 2), dtype=torch.float64)
        for g in values.tolist()
    ]
    return PTYL.build(priors, first=first, which=which, n_rows=torch.tensor(n))


def test_prior_of_snapshots_has_the_gradient_of_its_dense_covariance():
    stack, snapshots, first = random_stack(3)
    gammas = [0.5, 100.0, 0.5]
    n = [10, 20, 30]
    pull(snapshots, first, gammas=gammas, n=n).add_gradient(stack)

    def stacked(params):
        """Both hidden layers as one vector in the stack's order; the bias is the last input."""
        layers = []
        for i in (1, 2):
            weight = params[f"weight.{i}"]
            bias = params[f"bias.{i}"]
            layers.append(torch.cat([weight.mT, bias.unsqueeze(-2)], -2).flatten(-2))
        return torch.cat(layers, -1)

    deviations = stacked(snapshots.deviations)
    covariance = 0.5 * torch.diag(stacked(snapshots.diagonal)) + 0.5 / 5 * deviations.T @ deviations
    for s in range(3):
        phi = torch.cat([(first + stack.weights[0][s]).flatten(), stack.weights[1][s].flatten()])
        dense = gammas[s] * covariance + 0.1 * torch.eye(phi.numel(), dtype=torch.float64)
        expected = torch.linalg.solve(dense, phi - stacked(snapshots.mean)) / n[s]
        gradients = torch.cat([stack.gradients[k][s].flatten() for k in (0, 1)])
        torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-12)
    assert (stack.gradients[2] == 0).all()


def test_prior_of_chosen_samples_is_theirs():
    gradients = []
    for index in ([0, 1, 2], [2, 0]):
        stack, snapshots, first = random_stack(3)
        selected = pull(snapshots, first, gammas=[0.5, 100.0, 3.0], n=[10, 20, 30]).of(
            torch.tensor(index)
        )
        part = replace(
            stack,
            weights=[w[index] for w in stack.weights],
            gradients=[g[index] for g in stack.gradients],
        )
        selected.add_gradient(part)
        gradients.append(part.gradients[0])
    torch.testing.assert_close(gradients[0][[2, 0]], gradients[1])


def test_zero_mean_is_the_gradient_of_half_the_squared_hidden_weights():
    stack, _, first = random_stack(3)
    strength = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    hidden = [stack.weights[0].clone(), stack.weights[1].clone()]
    for layer in hidden:
        layer.requires_grad_(True)
    squares = ((hidden[0] + first) ** 2).sum((1, 2)) + (hidden[1] ** 2).sum((1, 2))
    (0.5 * strength * squares).sum().backward()
    penalty = Isotropic(strength, [-first, 0.0])
    penalty.add_gradient(stack)
    for level, layer in enumerate(hidden):
        np.testing.assert_allclose(stack.gradients[level], layer.grad, rtol=1e-12)
    assert (stack.gradients[2] == 0).all()  # the output layer is free
    assert penalty.of(torch.tensor([2])).strength.tolist() == [2.0]
