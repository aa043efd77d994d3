"""Methods that sample a network: layers of a source, and warnings of diagnostics."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.networks.perceptron import NetworkConfig, forward, init_params, layers_of
from bandgap.transfer.shared.sampled_network import diagnose

FIGURES = {
    "rhat_tau": 1.01,
    "rhat_sigma": 1.0,
    "rhat_c1": 1.02,
    "rhat_max": 1.02,
    "rhat_fit_max": 1.0,
    "divergences": 0.0,
}


@dataclasses.dataclass
class Info:
    """What `diagnose` reads of a sampler's record."""

    changed: dict[str, float]
    divergent = np.zeros((4, 1000), dtype=bool)

    def figures(self):
        return FIGURES | self.changed


def test_chains_that_agree_give_no_warning():
    assert diagnose(Info({})).warnings == ()
    assert diagnose(Info({})).figures["rhat_max"] == 1.02


def test_scale_on_which_the_chains_disagree_is_named():
    (warning,) = diagnose(Info({"rhat_tau": 1.2, "rhat_max": 1.2})).warnings
    assert warning.startswith(
        "The chains have not agreed yet on tau (R-hat 1.200, want below 1.05)."
    )
    assert warning.endswith(
        "more warm-up iterations or more draws of each chain (warmup, draws of the sampler)."
    )


def test_layer_weight_on_which_the_chains_disagree_is_named_by_its_layer():
    (warning,) = diagnose(Info({"rhat_c2": 1.0, "rhat_c3": 1.4, "rhat_max": 1.4})).warnings
    assert warning.startswith(
        "The chains have not agreed yet on c3, the weight of the output layer (R-hat 1.400"
    )


@pytest.mark.parametrize("count, warned", [(4.0, False), (5.0, True)])
def test_divergences_above_a_thousandth_are_a_warning(count, warned):
    warnings = diagnose(Info({"divergences": count})).warnings
    assert bool(warnings) is warned
    if warned:
        assert warnings[0].startswith(
            "5 of 4000 paths diverged: part of the posterior may be missing. Raise target_accept"
        )


def test_layers_hold_the_bias_as_last_column():
    network = NetworkConfig(3, (4, 2))
    params = init_params(network, generator=torch.Generator().manual_seed(0))
    params["bias.2"] += 0.5
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    h = x
    layers = layers_of(params)
    for i, layer in enumerate(layers):
        h = torch.nn.functional.pad(h, (0, 1), value=1.0) @ layer.T
        h = torch.relu(h) if i < 2 else h
    torch.testing.assert_close(h[:, 0], forward(params, x))
