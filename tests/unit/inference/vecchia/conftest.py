"""One field of 150 sites whose posterior every sampler is tried on, and its mode."""

import pytest

from bandgap.inference.vecchia.likelihood import build_blocks
from bandgap.inference.vecchia.scoring import find_mode
from bandgap.inference.vecchia.target import Target
from tests.unit.inference.vecchia.samples import START, TRUTH, field


@pytest.fixture(scope="module")
def data():
    return field(150, 2, TRUTH, seed=4, covariates=1)


@pytest.fixture(scope="module")
def target(data):
    return Target(build_blocks(*data, m=10))


@pytest.fixture(scope="module")
def mode(target):
    return find_mode(target, target.eta(START))
