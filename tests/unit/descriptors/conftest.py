"""Fixtures that run a test on every kind of descriptor and of structure."""

from collections.abc import Callable

import pytest
from ase import Atoms

from bandgap.descriptors import DescriptorConfig
from tests.unit.descriptors.samples import CONFIGS, crystal, ethanol


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def config(request: pytest.FixtureRequest) -> DescriptorConfig:
    """Every kind of term and normalisation."""
    value: DescriptorConfig = request.param
    return value


@pytest.fixture(params=[ethanol, crystal], ids=["molecule", "crystal"])
def atoms(request: pytest.FixtureRequest) -> Atoms:
    """One molecule and one crystal."""
    make: Callable[[], Atoms] = request.param
    return make()
