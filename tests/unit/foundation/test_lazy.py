"""A registry takes the entry points of other packages, and says which one is broken."""

import importlib.metadata
from typing import Any

import pytest

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.lazy import Registry


@pytest.mark.parametrize("path", ["no_such_module:METHOD", "math:METHOD"])
def test_entry_point_that_cannot_be_imported_is_named(monkeypatch, path: str) -> None:
    points = [importlib.metadata.EntryPoint("outside", path, "some.group")]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    registry: Registry[Any] = Registry({"own": "math:pi"}, group="some.group")
    assert list(registry) == ["own", "outside"] and registry["own"] > 3
    with pytest.raises(ConfigError, match=f"outside = '{path}' of the group some.group"):
        registry["outside"]
