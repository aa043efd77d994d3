"""The greedy soup by name is the greedy soup of `nptl_soup`."""

import torch

from bandgap.inference.batch.training import StackTraining
from bandgap.research.methods import nptl_soup
from bandgap.research.methods.nptl_greedy_soup import NptlGreedySoupConfig
from bandgap.research.methods.nptl_soup import NptlSoupConfig
from bandgap.transfer import METHODS

TRAINING = StackTraining(epochs=4, batch_size=8, learning_rate=3e-3)
SETTINGS = {"samples": 4, "alphas": (1.0,), "choice_samples": 1, "training": TRAINING}


def test_its_network_is_that_of_nptl_soup_with_the_greedy_soup(source_of, target):
    method = METHODS["nptl_greedy_soup"]
    ours = method.fit(source_of(), target, NptlGreedySoupConfig(**SETTINGS), seed=7, device="cpu")
    config = NptlSoupConfig(soup="greedy", **SETTINGS)
    expected = nptl_soup.fit(source_of(), target, config, seed=7, device="cpu")
    assert torch.equal(ours.coordinates, expected.coordinates)
    assert (ours.sigma == expected.sigma).all()
    uniform = nptl_soup.fit(source_of(), target, NptlSoupConfig(**SETTINGS), seed=7, device="cpu")
    assert not torch.equal(ours.coordinates, uniform.coordinates)
