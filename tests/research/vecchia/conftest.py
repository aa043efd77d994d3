"""One field of 150 sites whose posterior every sampler is tried on, its mode, and its moments by
quadrature.
"""

import pytest

from bandgap.research.vecchia.likelihood import build_blocks
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import Target
from tests.research.vecchia.samples import START, TRUTH, field, quadrature_of


@pytest.fixture(scope="module")
def data():
    return field(150, 2, TRUTH, seed=4, covariates=1)


@pytest.fixture(scope="module")
def target(data):
    return Target(build_blocks(*data, m=10))


@pytest.fixture(scope="module")
def mode(target):
    return find_mode(target, target.eta(START))


@pytest.fixture(scope="module")
def quadrature(target, mode):
    return quadrature_of(target, mode, spacing=0.55, radius=6)
