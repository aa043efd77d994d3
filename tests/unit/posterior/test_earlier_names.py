"""Posteriors are read with the names that earlier versions gave to their parts."""

import numpy as np
import pytest
import torch

from bandgap.networks.standardise import Standardiser
from bandgap.posterior import (
    Baseline,
    BaselinePosterior,
    Diagnostics,
    GaussianProcessPosterior,
    LastLayerPosterior,
    NetworkPosterior,
    Posterior,
    PosteriorMixture,
    ScaledNetworkPosterior,
    restored_posterior,
)
from bandgap.posterior.training_rows import TrainingRows
from bandgap.research.assumed_density.belief import Gamma, Weights
from bandgap.research.posteriors.factorised_network import FactorisedNetworkPosterior

RANDOM = np.random.default_rng(0)
P = 3
SCALES = Standardiser(RANDOM.normal(size=P), np.array([1.0, 2.0, 3.0]), 2.5, 0.5, 1.0)
OLD_SCALES = {"y_mean_eV": 2.5, "y_sd_eV": 0.5, "x_power": 1.0}
X = RANDOM.normal(size=(4, P))


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(numbers(*shape)).float()


def with_scales(arrays: dict[str, object]) -> dict[str, np.ndarray]:
    scales = {"x_mean": SCALES.x_mean, "x_scale": SCALES.x_scale}
    return {name: np.asarray(value) for name, value in (arrays | scales).items()}


NETWORK = NetworkPosterior(
    SCALES,
    tensor(2, P + 1),
    torch.zeros(P + 1, 0),
    torch.zeros(1, 2, 2, 0),
    torch.ones(1, 2),
    (tensor(1, 2, 2, 3), tensor(1, 2, 1, 3)),
    np.ones((1, 2)),
    7,
    np.full((1, 2, 3), 1 / 3),
)
NETWORK_ARRAYS = with_scales(
    {
        "theta_hat.1": NETWORK.theta_hat_1,
        "basis.1": NETWORK.basis,
        "coordinates.1": NETWORK.coordinates,
        "scale.1": NETWORK.scale_1,
        "theta.2": NETWORK.upper[0],
        "theta.3": NETWORK.upper[1],
        "sigma": NETWORK.sigma,
        "c": NETWORK.layer_weights,
    }
)
NETWORK_PLAIN = {"kind": "network", "seed": 7, **OLD_SCALES}
SD = torch.rand(2, P + 1)
SCALED = ScaledNetworkPosterior(**vars(NETWORK), sd_1=SD)
HIDDEN = {"weight.1": tensor(2, P).numpy(), "bias.1": tensor(2).numpy()}
LAYER = LastLayerPosterior(SCALES, HIDDEN, numbers(1, 2, 3), np.ones((1, 2)), 7)
LAYER_ARRAYS = with_scales(
    {
        "hidden.weight.1": HIDDEN["weight.1"],
        "hidden.bias.1": HIDDEN["bias.1"],
        "output": LAYER.output,
        "sigma": LAYER.sigma,
    }
)
LAYER_PLAIN = {"kind": "last_layer", "seed": 7, **OLD_SCALES}
ROWS = TrainingRows(P, np.arange(P), numbers(2, P).astype(np.float32), np.zeros(P), np.ones(P))
PROCESS = GaussianProcessPosterior(ROWS, numbers(2), np.eye(2), 1.0, 2.0, 0.1, 2.0, 0.5)
WEIGHTS = Weights((numbers(2, P + 1), numbers(1, 3)), (np.ones((2, P + 1)), np.ones((1, 3))))
FACTORISED = FactorisedNetworkPosterior(SCALES, WEIGHTS, Gamma(6.0, 5.0), 10.0)
LINE = Baseline(P - 1, 1.0, 0.1, 2.0)
CASES: dict[str, tuple[Posterior, dict[str, np.ndarray], dict[str, object]]] = {
    "network": (NETWORK, NETWORK_ARRAYS, NETWORK_PLAIN),
    "network of an unnamed kind": (NETWORK, NETWORK_ARRAYS, {"seed": 7, **OLD_SCALES}),
    "network with own scales": (
        SCALED,
        NETWORK_ARRAYS | {"sd.1": SD.numpy()},
        NETWORK_PLAIN | {"kind": "scaled_network"},
    ),
    "mixture": (
        PosteriorMixture((LAYER, NETWORK)),
        {f"0.{name}": value for name, value in LAYER_ARRAYS.items()}
        | {f"1.{name}": value for name, value in NETWORK_ARRAYS.items()},
        {"kind": "mixture", "members": [LAYER_PLAIN, NETWORK_PLAIN]},
    ),
    "baseline": (
        BaselinePosterior(LAYER, Baseline(P, 1.0, 0.1, 2.0), 3),
        LAYER_ARRAYS,
        {
            "kind": "baseline",
            "rest": LAYER_PLAIN,
            "baseline": {"n_features": P, "slope": 1.0, "slope_sd": 0.1, "centre_eV": 2.0},
            "seed": 3,
        },
    ),
    "Gaussian process": (
        PROCESS,
        {
            f"{prefix}{name}": getattr(owner, name)
            for prefix, owner, names in (
                ("rows.", ROWS, ("columns", "values", "mean", "scale")),
                ("", PROCESS, ("coefficients", "factor")),
            )
            for name in names
        },
        {
            "kind": "gaussian_process",
            "n_features": P,
            "variance": 1.0,
            "length": 2.0,
            "noise_variance": 0.1,
            "y_mean_eV": 2.0,
            "y_sd_eV": 0.5,
        },
    ),
    "independent weights": (
        FACTORISED,
        with_scales(
            {
                "mean.1": WEIGHTS.means[0],
                "mean.2": WEIGHTS.means[1],
                "variance.1": WEIGHTS.variances[0],
                "variance.2": WEIGHTS.variances[1],
            }
        ),
        {
            "kind": "factorised_network",
            "noise_shape": 6.0,
            "noise_rate": 5.0,
            "clip": 10.0,
            **OLD_SCALES,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_posterior_with_earlier_names_predicts_the_same(name: str) -> None:
    posterior, arrays, plain = CASES[name]
    again = restored_posterior(arrays, plain, Diagnostics(warnings=("a sentence",)))
    x = np.hstack([X, X[:, :1]]) if name == "baseline" else X
    first, second = posterior.predictive_draws(x), again.predictive_draws(x)
    np.testing.assert_array_equal(second.means_eV, first.means_eV)
    np.testing.assert_array_equal(second.sds_eV, first.sds_eV)
    assert again.summaries().keys() == posterior.summaries().keys()
    assert again.diagnostics.warnings == ("a sentence",)
