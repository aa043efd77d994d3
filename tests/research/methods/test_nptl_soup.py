"""Soups average weights: equal networks are unchanged, a greedy soup excludes worse ones."""

import numpy as np
import pytest
import torch

from bandgap.inference.batch.training import StackTraining
from bandgap.research.methods import nptl_soup
from bandgap.research.methods.nptl_soup import NO_SPREAD, NptlSoupConfig, greedy_soup
from bandgap.transfer import nptl
from bandgap.transfer.nptl import NptlConfig
from bandgap.transfer.shared.folds import start_of
from bandgap.transfer.shared.method import Fitting

TRAINING = StackTraining(precision="float64", epochs=4, batch_size=8, learning_rate=3e-3)
SETTINGS = {"alphas": (1.0,), "choice_samples": 1, "training": TRAINING}


def test_uniform_soup_has_the_mean_of_the_samples_weights(source_of, target):
    posterior = nptl.fit(
        source_of(), target, NptlConfig(samples=4, **SETTINGS), Fitting(7, device="cpu")
    )
    soup = nptl_soup.fit(
        source_of(), target, NptlSoupConfig(samples=4, **SETTINGS), Fitting(7, device="cpu")
    )
    assert (soup.n_chains, soup.n_draws) == (1, 1)
    torch.testing.assert_close(soup.coordinates, posterior.coordinates.mean(1, keepdim=True))
    for soup_layer, upper in zip(soup.upper, posterior.upper, strict=True):
        torch.testing.assert_close(soup_layer, upper.mean(1, keepdim=True))
    assert soup.diagnostics.warnings == (NO_SPREAD,)


@pytest.mark.parametrize("soup", ["uniform", "greedy"])
def test_soup_of_one_sample_is_that_sample(source_of, target, soup):
    config = NptlSoupConfig(samples=1, soup=soup, sigma="val", **SETTINGS)
    alone = nptl.fit(
        source_of(),
        target,
        NptlConfig(samples=1, sigma="val", **SETTINGS),
        Fitting(7, device="cpu"),
    )
    one_sample_soup = nptl_soup.fit(source_of(), target, config, Fitting(7, device="cpu"))
    x = target.features
    np.testing.assert_allclose(one_sample_soup.mean_draws_eV(x), alone.mean_draws_eV(x), atol=1e-6)
    np.testing.assert_allclose(one_sample_soup.sigma, alone.sigma, rtol=1e-6)
    assert one_sample_soup.diagnostics.figures["networks_in_the_soup"] == 1


def networks(start, distances):
    """The probe's network, moved by these distances in the bias of its output layer."""
    weights = [torch.zeros(len(distances), start.layer.inputs.shape[1], 6, dtype=torch.float64)]
    head = torch.from_numpy(start.probe.head)[None, :, None].repeat(len(distances), 1, 1)
    head[:, -1, 0] += torch.tensor(distances, dtype=torch.float64)
    return weights, head


def test_greedy_soup_starts_with_the_best_and_adds_harmless_networks(source_of, target):
    """Output biases off by 1 and -1 cancel in an average; one off by 5 never helps."""
    source = source_of()
    trained = np.arange(40) % 4 > 0
    start = start_of(
        source, target, trained=trained, statistics="source", gap_scale="source", coordinates="full"
    )
    between = torch.cat([source.params["weight.2"].T, source.params["bias.2"][None]]).double()
    first, head = networks(start, [5.0, 0.4, -0.4, 0.0])
    stack = [*first, between[None].repeat(4, 1, 1), head]
    y = start.standardiser.gaps_eV(start.y)[~trained]
    level = float(y.mean() - start.held_out_eV([*first[:1], stack[1], head])[3].mean())
    # So that the fourth is level on the rows left out.
    stack[2][:, -1, 0] += level / start.standardiser.y_sd_eV
    used, sigma = greedy_soup(start, stack, y)
    assert used[0] == 3 and 0 not in used
    residuals = y - start.held_out_eV([layer[3:] for layer in stack])[0]
    assert sigma == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=0.2)


def test_identical_samples_are_all_in_the_greedy_soup(source_of, target):
    source = source_of()
    trained = np.arange(40) % 4 > 0
    start = start_of(
        source, target, trained=trained, statistics="source", gap_scale="source", coordinates="full"
    )
    between = torch.cat([source.params["weight.2"].T, source.params["bias.2"][None]]).double()
    first, head = networks(start, [0.0, 0.0, 0.0])
    used, _ = greedy_soup(
        start,
        [*first, between[None].repeat(3, 1, 1), head],
        start.standardiser.gaps_eV(start.y)[~trained],
    )
    assert sorted(used.tolist()) == [0, 1, 2]
