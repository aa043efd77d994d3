"""Dataclasses of arrays and plain values come back from tensors and JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.storage.stored_fields import restored_fields, stored_fields


@dataclass(frozen=True, eq=False)
class Line:
    kind: ClassVar[str] = "line"
    slope: float


@dataclass(frozen=True, eq=False)
class Curve:
    kind: ClassVar[str] = "curve"
    values: NDArray[np.float64]


class Shape(Protocol):
    kind: ClassVar[str]


@dataclass(frozen=True, eq=False)
class Model:
    names: tuple[str, ...]
    values: NDArray[np.float64]
    layers: tuple[tuple[Tensor, NDArray[np.int64]], ...]
    params: Mapping[str, Tensor]
    counts: Mapping[str, int]
    first: Line | Curve
    shapes: tuple[Shape, ...]
    inner: "Model | None" = None
    scale: NDArray[np.float64] | None = None
    diagnostics: str = "as new"
    options: Mapping[str, int] = field(default_factory=lambda: {"a": 1})


KINDS = {"line": Line, "curve": Curve}


def model(inner: Model | None = None) -> Model:
    return Model(
        names=("a", "b"),
        values=np.arange(6.0).reshape(2, 3).T,
        layers=((torch.ones(2), np.arange(3)), (torch.zeros(1), np.arange(1))),
        params={"weight.1": torch.ones(1, 2), "bias.1": torch.zeros(2)},
        counts={"Si": 3},
        first=Curve(np.ones(1)),
        shapes=(Line(2.0), Curve(np.zeros(2))),
        inner=inner,
        diagnostics="found",
    )


def read_again(value: Model) -> Model:
    arrays, plain = stored_fields(value)
    return restored_fields(Model, arrays, json.loads(json.dumps(plain)), class_of=KINDS.__getitem__)


@pytest.mark.parametrize("inner", [None, model()], ids=["plain", "nested"])
def test_every_part_comes_back(inner: Model | None) -> None:
    again = read_again(model(inner))
    assert (again.inner is None) == (inner is None)
    for part in filter(None, (again, again.inner)):
        assert part.names == ("a", "b") and part.counts == {"Si": 3} and part.scale is None
        np.testing.assert_array_equal(part.values, model().values)
        assert [(len(a), len(b)) for a, b in part.layers] == [(2, 3), (1, 1)]
        assert {k: v.shape for k, v in part.params.items()} == {"weight.1": (1, 2), "bias.1": (2,)}
        assert isinstance(part.first, Curve)
        assert [type(shape) for shape in part.shapes] == [Line, Curve]
        assert part.diagnostics == "as new" and part.options == {"a": 1}


def test_names_of_tensors_are_paths_of_fields() -> None:
    arrays, plain = stored_fields(model())
    assert set(arrays) == {
        "values",
        "layers.0.0",
        "layers.0.1",
        "layers.1.0",
        "layers.1.1",
        "params.weight.1",
        "params.bias.1",
        "first.values",
        "shapes.1.values",
    }
    assert plain["shapes"] == [{"kind": "line", "slope": 2.0}, {"kind": "curve"}]


def test_stored_arrays_are_copies() -> None:
    value = model()
    arrays, _ = stored_fields(value)
    value.values[0, 0] = 9.0
    assert arrays["values"][0, 0] == 0.0


@pytest.mark.parametrize("name", ["values", "first.values"])
def test_missing_tensor_is_named(name: str) -> None:
    arrays, plain = stored_fields(model())
    with pytest.raises(KeyError, match=name):
        restored_fields(
            Model,
            {key: value for key, value in arrays.items() if key != name},
            plain,
            class_of=KINDS.__getitem__,
        )


@pytest.mark.parametrize("name", ["other", "inner.other", "first.slope"])
def test_tensor_of_no_field_is_refused(name: str) -> None:
    arrays, plain = stored_fields(model(model()))
    with pytest.raises(ValueError, match=f"tensor {name} is of no part"):
        restored_fields(Model, arrays | {name: torch.zeros(1)}, plain, class_of=KINDS.__getitem__)
