"""Small stacks of networks in float64, and the plain optimisers that they are compared with."""

import numpy as np
import torch

from bandgap.inference.batch.bootstrap import stream
from bandgap.inference.batch.rows import Samples, first_layer
from bandgap.inference.batch.training import StackTraining, train_stack
from tests.unit.inference.network.problems import CPU, raw

EXACT = StackTraining(precision="float64", epochs=4, batch_size=5, learning_rate=0.02, clip=0.0)


def problem(n=12, p=20, *, samples=3, seed=0, coordinates="row_space", hidden=(4, 3), trained=None):
    """First layer, layers between, samples with random weights and labels; and theta_hat, x."""
    theta_hat, x, y = raw(n, p, hidden=hidden, seed=seed)
    rng = np.random.default_rng(seed + 1)
    trained = np.ones(n, dtype=bool) if trained is None else trained
    layer = first_layer(theta_hat[0], x.numpy(), trained=trained, coordinates=coordinates)
    head = theta_hat[-1].numpy()[0]
    drawn = Samples(
        layer=np.zeros(samples, dtype=int),
        omega=rng.uniform(0, 4, size=(samples, n)) * trained,
        labels=y.numpy() + 0.5 * rng.normal(size=(samples, n)),
        heads=head + 0.1 * rng.normal(size=(samples, len(head))),
        numbers=np.arange(samples),
        folds=np.full(samples, -1),
        n_rows=np.full(samples, int(trained.sum())),
        variances=np.ones(samples),
    )
    return layer, [t.T.contiguous() for t in theta_hat[1:-1]], drawn, (theta_hat, x)


def trained_stack(layers, between, samples, config=EXACT, **more):
    return train_stack(layers, between, samples, config=config, seed=0, device=CPU, **more)[-1]


def by_torch(theta_hat, x, samples, sample, *, config=EXACT, weight_decay=0.0):
    """One network in full coordinates, trained by torch's optimiser with its stream's row order."""
    start = [*theta_hat[:-1], torch.from_numpy(samples.heads[sample])[None]]
    theta = [t.clone().requires_grad_() for t in start]
    omega, labels = (torch.from_numpy(values[sample]) for values in (samples.omega, samples.labels))
    optimiser = (
        torch.optim.Adam(theta)
        if config.optimiser == "adam"
        else torch.optim.SGD(theta, momentum=config.momentum)
    )
    rng = stream(0, int(samples.numbers[sample]), "order")
    parts = -(-len(x) // config.batch_size)
    for epoch in range(config.epochs):
        for part, rows in enumerate(
            torch.tensor_split(torch.from_numpy(rng.permutation(len(x))), parts)
        ):
            h = x[rows]
            for i, layer in enumerate(theta):
                h = (
                    torch.cat(
                        [h if i == 0 else torch.relu(h), torch.ones(len(rows), 1)], 1
                    ).double()
                    @ layer.T
                )
            loss = (omega[rows] * (labels[rows] - h[:, 0]) ** 2).sum() / (4 * len(rows))
            for layer, at in zip(theta[:-1], start[:-1], strict=True):
                loss = loss + 0.5 * weight_decay * ((layer - at) ** 2).sum()
            optimiser.zero_grad()
            loss.backward()
            if config.clip > 0:
                norm = torch.sqrt(sum((layer.grad**2).sum() for layer in theta))
                for layer in theta:  # torch's own clipping adds 1e-6 to the norm
                    layer.grad *= torch.clamp(config.clip / norm, max=1.0)
            share = (epoch * parts + part) / (config.epochs * parts)
            optimiser.param_groups[0]["lr"] = config.learning_rate * (1 + np.cos(np.pi * share)) / 2
            optimiser.step()
    return [t.detach() for t in theta]
