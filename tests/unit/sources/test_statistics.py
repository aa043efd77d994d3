"""The moments of the last hidden features."""

import numpy as np
import torch

from bandgap.networks.perceptron import NetworkConfig, init_params
from bandgap.sources.statistics import ROWS_PER_CHUNK, feature_statistics


def test_statistics_are_those_of_the_features_over_several_chunks():
    params = init_params(NetworkConfig(4, (6, 3)), generator=torch.Generator().manual_seed(0))
    x = torch.randn(ROWS_PER_CHUNK + 7, 4, generator=torch.Generator().manual_seed(1))
    h = torch.relu(x @ params["weight.1"].T + params["bias.1"])
    h = torch.relu(h @ params["weight.2"].T + params["bias.2"]).double().numpy()
    statistics = feature_statistics(params, x, residual_variance=0.3)
    np.testing.assert_allclose(statistics.mean, h.mean(0), rtol=1e-6)
    np.testing.assert_allclose(
        statistics.scatter, (h - h.mean(0)).T @ (h - h.mean(0)), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(statistics.sd, h.std(0), rtol=1e-6)
    assert (statistics.n, statistics.residual_variance) == (len(h), 0.3)


def test_constant_features_have_no_scatter():
    params = init_params(NetworkConfig(4, (3,)), generator=torch.Generator().manual_seed(0))
    params["bias.1"] = torch.full((3,), -100.0)
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    assert (feature_statistics(params, x, residual_variance=1.0).scatter == 0).all()
