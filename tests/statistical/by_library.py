"""Helpers of the statistical tests: sources of given weights, transfers, means over chains."""

from dataclasses import replace

import numpy as np

from bandgap.descriptors import PRESETS
from bandgap.inference.network import sampler as network_sampler
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.standardise import Standardiser
from bandgap.networks.variational import VariationalFit
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.transfer import TargetData
from bandgap.transfer.shared.method import Fitting

# Chains are independent: standard errors are those of chain means, whatever the autocorrelation.
CHAINS = 50
Y_MEAN, Y_SD = 3.0, 0.7  # eV
# Bound for the largest of at most 30 comparisons: a false alarm in 5,000 runs; the seeds are fixed.
SIGMAS = 4.5


def source_of(theta_hat, *, sds=None):
    """A source with these weights (out, in + 1), on scales that are not 1.

    With `sds` it has a variational posterior.
    """
    p = theta_hat[0].shape[1] - 1
    hidden = tuple(layer.shape[0] for layer in theta_hat[:-1])
    source = SourceModel(
        parameters_of(theta_hat),
        NetworkConfig(p, hidden),
        Standardiser(np.full(p, 1.0), np.full(p, 2.0), Y_MEAN, Y_SD),
        PRESETS["thesis-1260"],
        SourceCard(("made",), 1, ("C",)),
        SourceConfig(hidden),
    )
    return (
        source
        if sds is None
        else replace(
            source, variational=VariationalFit(parameters_of(theta_hat), parameters_of(sds), 0.1)
        )
    )


def parameters_of(layers):
    """Layers (out, in + 1) as parameters of a network, in float32."""
    return {f"weight.{i + 1}": layer[:, :-1].float() for i, layer in enumerate(layers)} | {
        f"bias.{i + 1}": layer[:, -1].float() for i, layer in enumerate(layers)
    }


def transferred(method, config, source, x, y, *, monkeypatch):
    """The method's posterior given standardised x (n, p) and y (n,), on the source's own scales."""
    # One batch is cheaper than many pairs.
    monkeypatch.setattr(network_sampler, "CHAINS_PER_GROUP", 25)
    data = TargetData(2.0 * x.numpy() + 1.0, Y_SD * y.numpy() + Y_MEAN)
    return method.fit(
        source,
        data,
        replace(config, standardise="source", gap_scale="source"),
        Fitting(0, device="cpu"),
    )


def predicted(posterior, new):
    """f (chain, draw, m) of a posterior at standardised inputs (m, p), in standardised units."""
    return (posterior.mean_draws_eV(2.0 * new.numpy() + 1.0) - Y_MEAN) / Y_SD


def mean_and_error(draws):
    """Mean over independent chains of draws (chain, draw, quantity), and its standard error."""
    means = draws.mean(1)
    return means.mean(0), means.std(0, ddof=1) / np.sqrt(means.shape[0])


def assert_same_means(mean, error, reference):
    """Check that means equal those of a reference within the standard errors of both."""
    score = (mean - reference["mean"]) / np.hypot(error, reference["error"])
    assert np.abs(score).max() < SIGMAS, np.round(score, 1)
