"""A source made by hand, whose features and gaps need no scaling, and a target for it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.descriptors import DescriptorConfig, Term
from bandgap.networks.perceptron import NetworkConfig, init_params
from bandgap.networks.standardise import Standardiser
from bandgap.networks.variational import VariationalFit
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.transfer import TargetData

P = 5
DESCRIPTOR = DescriptorConfig(
    species=("H",),
    k1=Term("atomic_number", 0.0, 10.0, 3, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 3, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)


@pytest.fixture
def source_of():
    """Make a source model of given or random weights, on scales that change nothing."""

    def make(params=None, *, seed=0, hidden=(6, 4)):
        network = NetworkConfig(P, hidden)
        params = (
            init_params(network, generator=torch.Generator().manual_seed(seed))
            if params is None
            else params
        )
        plain = Standardiser(np.zeros(P), np.ones(P), 0.0, 1.0)
        return SourceModel(
            params, network, plain, DESCRIPTOR, SourceCard((), 1, ("H",)), SourceConfig(hidden)
        )

    return make


@pytest.fixture
def target():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, P)).astype(np.float32)
    return TargetData(x, np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=40))


@pytest.fixture
def knowing_source(source_of):
    """A source with a variational posterior and Fisher information of its weights."""
    source = source_of(seed=3)
    generator = torch.Generator().manual_seed(4)
    mean = {
        n: v + 0.05 * torch.randn(v.shape, generator=generator) for n, v in source.params.items()
    }
    sd = {n: 0.02 + 0.1 * torch.rand(v.shape, generator=generator) for n, v in mean.items()}
    fisher = {n: 50.0 * torch.rand(v.shape, generator=generator) for n, v in mean.items()}
    return replace(source, variational=VariationalFit(mean, sd, 0.1), fisher=fisher)
