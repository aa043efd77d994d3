"""Rows that are left out touch nothing that is fitted."""

import numpy as np
import pytest
import torch

from bandgap.networks.perceptron import forward
from bandgap.transfer import TargetData
from bandgap.transfer.shared.folds import held_out_masks, start_of

SETTINGS = {"statistics": "target", "gap_scale": "calibrated", "coordinates": "row_space"}


@pytest.mark.parametrize("n", [5, 23, 200])
def test_five_folds_leave_every_row_out_once(n):
    masks = held_out_masks(n, rule="cv", seed=0)
    assert len(masks) == 5
    assert (sum(~mask for mask in masks) == np.ones(n)).all()
    sizes = [int((~mask).sum()) for mask in masks]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    "rule, n, folds, n_held_out", [("auto", 999, 5, 999), ("auto", 1000, 1, 100), ("val", 40, 1, 4)]
)
def test_rule_says_how_many_rows_are_left_out(rule, n, folds, n_held_out):
    masks = held_out_masks(n, rule=rule, seed=0)
    assert (len(masks), int(sum((~mask).sum() for mask in masks))) == (folds, n_held_out)


def test_masks_follow_the_seed():
    first, again, other = (held_out_masks(30, rule="cv", seed=seed)[0] for seed in (3, 3, 4))
    assert (first == again).all() and (first != other).any()


def test_start_is_fitted_without_the_rows_left_out(source_of, target):
    trained = np.arange(40) % 4 > 0
    rng = np.random.default_rng(0)
    changed = TargetData(
        np.where(
            trained[:, None],
            target.features,
            rng.normal(size=target.features.shape).astype(np.float32),
        ),
        np.where(trained, target.gaps_eV, 50.0),
    )
    first, second = (
        start_of(source_of(), data, trained=trained, **SETTINGS) for data in (target, changed)
    )
    assert first.standardiser.y_mean_eV == second.standardiser.y_mean_eV
    assert (first.standardiser.x_mean == second.standardiser.x_mean).all()
    assert (first.layer.basis == second.layer.basis).all()
    assert (first.probe.head == second.probe.head).all()
    assert first.n_trained == 30


@pytest.mark.parametrize("coordinates", ["row_space", "full"])
def test_rows_left_out_are_predicted_by_the_whole_network(source_of, target, coordinates):
    source = source_of()
    trained = np.arange(40) % 4 > 0
    start = start_of(source, target, trained=trained, **SETTINGS | {"coordinates": coordinates})
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    rank = start.layer.inputs.shape[1]
    # The stack's rank may be larger than a fold's.
    weights = [
        drawn(2, rank + 3, 6),
        drawn(2, 7, 4),
        drawn(2, 5, 1),
    ]
    basis = torch.eye(6, dtype=torch.float64) if start.layer.basis is None else start.layer.basis
    change = (basis @ weights[0][:, :rank]).mT
    params = {
        "weight.1": source.params["weight.1"].double() + change[..., :-1],
        "bias.1": source.params["bias.1"].double() + change[..., -1],
        "weight.2": weights[1][:, :-1].mT,
        "bias.2": weights[1][:, -1],
        "weight.3": weights[2][:, :-1].mT,
        "bias.3": weights[2][:, -1],
    }
    x = torch.from_numpy(start.standardiser.features(target.features[~trained]))
    expected = start.standardiser.gaps_eV(forward(params, x).numpy())
    np.testing.assert_allclose(start.held_out_eV(weights), expected, atol=1e-9)
