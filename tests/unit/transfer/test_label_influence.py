"""The influence of labels on fitted methods, against fits without the label."""

import numpy as np
import pytest

from bandgap.foundation.config import from_dict
from bandgap.posterior import label_influence as influences
from bandgap.posterior.label_influence import has_few_draws, label_influence
from bandgap.transfer import feature_gp, get_method
from bandgap.transfer.last_layer_ridge import LastLayerRidgeConfig, fit
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.last_layers import UNCHANGED, P, lookup_source, target_of
from tests.unit.transfer.method_settings import FEW_DRAWS, QUICK


def test_weights_of_the_kernel_of_networks_give_its_prediction(source_of) -> None:
    source = lookup_source(source_of)
    data = target_of(source, n=30)
    new = np.random.default_rng(4).normal(size=(5, P)).astype(np.float32)
    posterior = feature_gp.fit(source, data, feature_gp.METHOD.config(), Fitting(0, device="cpu"))
    influence = label_influence(posterior, new, training=data.features, gaps_eV=data.gaps_eV)
    assert influence is not None
    level = data.gaps_eV.mean()
    predicted = level + influence.weights @ (data.gaps_eV - level)
    drawn = posterior.mean_draws_eV(new).mean((0, 1))
    assert predicted == pytest.approx(drawn, abs=0.02 * data.gaps_eV.std())


def test_labels_in_blocks_have_the_influence_of_all_together(source_of, monkeypatch) -> None:
    source = lookup_source(source_of)
    data = target_of(source, n=30)
    config = LastLayerRidgeConfig(**UNCHANGED, draws=100)
    posterior = fit(source, data, config, Fitting(0, device="cpu"))

    def influence():
        return label_influence(
            posterior, data.features[:4], training=data.features, gaps_eV=data.gaps_eV
        )

    together = influence()
    monkeypatch.setattr(influences, "LABELS_PER_BLOCK", 7)
    in_blocks = influence()
    for name in ("weights", "changes_eV", "errors_eV"):
        assert getattr(in_blocks, name) == pytest.approx(getattr(together, name))


def test_network_sampled_without_layer_weights_has_weights_of_labels(source_of) -> None:
    """And one that is only trained has none; the sampler makes too few draws and then enough."""
    source = lookup_source(source_of)
    data = target_of(source, n=30)

    def fitted(method, settings):
        entry = get_method(method)
        config = from_dict(entry.config, settings)
        return entry.fit(source, data, config, Fitting(0, device="cpu"))

    short_chains = fitted("bnn", FEW_DRAWS)
    assert has_few_draws(short_chains)
    long_chains = fitted("bnn", {"sampler": FEW_DRAWS["sampler"] | {"draws": 120, "keep": 120}})
    arguments = {"training": data.features, "gaps_eV": data.gaps_eV}
    influence = label_influence(long_chains, data.features[:4], **arguments)
    assert influence is not None and influence.way == "draws"
    assert (np.diag(influence.weights) > 0).all()
    trained = fitted("fine_tune", QUICK["fine_tune"])
    assert not has_few_draws(trained)
    assert label_influence(trained, data.features[:4], **arguments) is None
