"""A source whose hidden layer is a lookup of the features."""

import dataclasses

import numpy as np
import torch

from bandgap.sources.statistics import feature_statistics
from bandgap.transfer import TargetData

P = 5  # features of the fixture `source_of`; the hidden units are relu(x) and relu(-x)
Q = 2 * P
UNCHANGED = {"standardise": "source", "gap_scale": "source"}


def hidden_of(x):
    """Hidden units (n, 2 P) of raw features (n, P)."""
    return np.hstack([np.maximum(x, 0), np.maximum(-x, 0)]).astype(np.float64)


def lookup_source(source_of, *, weights=None, bias=0.4, n=400, residual_variance=0.09, seed=0):
    """A source with these output weights (Q,), and moments of its hidden units on n rows.

    n = 0 leaves the moments out.
    """
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=Q) if weights is None else weights
    params = {
        "weight.1": torch.cat([torch.eye(P), -torch.eye(P)]),
        "bias.1": torch.zeros(Q),
        "weight.2": torch.from_numpy(weights).float()[None],
        "bias.2": torch.tensor([bias]),
    }
    source = source_of(params, hidden=(Q,))
    if not n:
        return source
    x = torch.from_numpy(rng.normal(size=(n, P))).float()
    return dataclasses.replace(
        source, features=feature_statistics(params, x, residual_variance=residual_variance)
    )


def target_of(source, *, n=60, change=None, noise=0.3, seed=1, shift=0.5):
    """Rows of the source's own model with changed output weights, another level and noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, P)).astype(np.float32)
    beta = source.params["weight.2"].double().numpy()[0] + (0.0 if change is None else change)
    y = hidden_of(x) @ beta + float(source.params["bias.2"]) + shift + noise * rng.normal(size=n)
    return TargetData(x, y)
