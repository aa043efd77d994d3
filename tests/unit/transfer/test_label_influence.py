"""The influence of labels on fitted methods, against fits without the label."""

import dataclasses

import numpy as np
import pytest

from bandgap.posterior.label_influence import label_influence
from bandgap.transfer import TargetData, feature_gp
from bandgap.transfer.last_layer_ridge import LastLayerRidgeConfig, fit
from tests.unit.transfer.last_layers import UNCHANGED, P, lookup_source, target_of


def test_changes_of_an_output_layer_are_those_of_fits_without_the_label(source_of) -> None:
    """Of 30 labels, one of them wrong by 3 eV, on 5 predictions."""
    source = lookup_source(source_of)
    data = target_of(source, n=30)
    gaps = data.gaps_eV.copy()
    gaps[7] += 3.0
    data = dataclasses.replace(data, gaps_eV=gaps)
    new = np.random.default_rng(4).normal(size=(5, P)).astype(np.float32)
    config = LastLayerRidgeConfig(**UNCHANGED, draws=2000)
    posterior = fit(source, data, config, seed=0, device="cpu")
    influence = label_influence(posterior, new, training=data.features, gaps_eV=gaps)
    assert influence is not None
    assert influence.way == "draws"

    def prediction(rows):
        part = TargetData(data.features[rows], gaps[rows])
        return fit(source, part, config, seed=0, device="cpu").mean_draws_eV(new).mean((0, 1))

    full = prediction(np.arange(30))
    refits = np.stack([full - prediction(np.delete(np.arange(30), i)) for i in range(30)], axis=1)
    assert np.corrcoef(influence.changes_eV.ravel(), refits.ravel())[0, 1] > 0.9
    largest = np.abs(refits).max(axis=0).argmax()
    assert largest == 7 == np.abs(influence.changes_eV).max(axis=0).argmax()


def test_weights_of_the_kernel_of_networks_give_its_prediction(source_of) -> None:
    source = lookup_source(source_of)
    data = target_of(source, n=30)
    new = np.random.default_rng(4).normal(size=(5, P)).astype(np.float32)
    posterior = feature_gp.fit(source, data, feature_gp.METHOD.config(), seed=0, device="cpu")
    influence = label_influence(posterior, new, training=data.features, gaps_eV=data.gaps_eV)
    assert influence is not None
    level = data.gaps_eV.mean()
    predicted = level + influence.weights @ (data.gaps_eV - level)
    drawn = posterior.mean_draws_eV(new).mean((0, 1))
    assert predicted == pytest.approx(drawn, abs=0.02 * data.gaps_eV.std())
