"""What is said where RDKit is missing."""

import importlib.util

import pytest

from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.foundation.errors import ConfigError
from tests.unit.descriptors.samples import crystal, record


def test_missing_rdkit_is_reported_with_what_to_install(monkeypatch):
    find_spec = importlib.util.find_spec

    def without_rdkit(name: str, package: str | None = None):
        return None if name == "rdkit" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_rdkit)
    with pytest.raises(ConfigError, match=r"need the package rdkit.*constraints.txt \."):
        featurize([record(crystal())], DescriptorConfig(bonds=True))
