"""The extras of a stored source: Fisher information, variational posterior and snapshots.

They are in one file in half precision, and their scalars in the manifest. Means are float16, whose
rounding of 2^-11 of a weight is far below its standard deviation. Spreads (standard deviations,
Fisher information, variances, deviations of snapshots) are bfloat16, which has the range of
float32 and a rounding of 2^-8. Columns of a weight with one value, such as those of features that
no structure of the source has, are stored as this value without any loss.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bandgap.networks.perceptron import Params
from bandgap.networks.swag import Snapshots
from bandgap.networks.variational import VariationalFit
from bandgap.sources.model import SourceModel
from bandgap.storage.arrays import check_growth, check_shapes
from bandgap.storage.tensors import load_tensors, save_tensors

EXTRAS = "extras.safetensors"
# Suffixes of which columns are stored, and of the value of the others.
_IS_STORED = "@kept"
_FILL = "@fill"

_FORMATS = {
    "fisher": torch.bfloat16,
    "variational.mean": torch.float16,
    "variational.sd": torch.bfloat16,
    "snapshots.mean": torch.float16,
    "snapshots.diagonal": torch.bfloat16,
    "snapshots.deviations": torch.bfloat16,
}


def save_extras(folder: Path, source: SourceModel) -> dict[str, Any]:
    """Write the source's extras, if it has any, and return their entry in the manifest."""
    groups: dict[str, Params] = {}
    entry: dict[str, Any] = {}
    if source.fisher is not None:
        groups["fisher"] = source.fisher
        entry["fisher"] = {}
    if (fit := source.variational) is not None:
        groups |= {"variational.mean": fit.mean, "variational.sd": fit.sd}
        names = ("noise_variance", "validation_mse", "kl_weight")
        scalars = {name: getattr(fit, name) for name in names}
        entry["variational"] = {**scalars, "elbo": list(fit.elbo)}
    if (walk := source.snapshots) is not None:
        groups |= {
            f"snapshots.{name}": getattr(walk, name) for name in ("mean", "diagonal", "deviations")
        }
        entry["snapshots"] = {"rank": walk.rank}
    path = folder / EXTRAS
    if not groups:
        path.unlink(missing_ok=True)  # of an earlier source in this folder
        return {}
    arrays: dict[str, Tensor] = {}
    for group, params in groups.items():
        for name, value in params.items():
            arrays |= packed(f"{group}.{name}", value.to(_FORMATS[group]))
    save_tensors(arrays, path)
    return entry


def load_extras(folder: Path, source: SourceModel, entry: Mapping[str, Any]) -> SourceModel:
    """Return the source with the extras of the manifest's entry, in float32.

    Raises ArtifactError if the file is missing or its shapes do not match the source's network.
    """
    if not entry:
        return source
    path = folder / EXTRAS
    stored = load_tensors(path, {})

    def group(prefix: str, *leading: int) -> Params:
        shapes = {
            f"{prefix}.{name}": (*leading, *shape) for name, shape in source.network.shapes.items()
        }
        stored_shapes = {name: _shape(stored, name) for name in shapes if name in stored}
        check_shapes(path, stored_shapes, shapes)
        check_growth(stored, (4 * math.prod(shape) for shape in shapes.values()))
        return {name: unpacked(stored, f"{prefix}.{name}") for name in source.network.shapes}

    if "fisher" in entry:
        source = replace(source, fisher=group("fisher"))
    if "variational" in entry:
        scalars = entry["variational"]
        mse = scalars["validation_mse"]
        fit = VariationalFit(
            group("variational.mean"),
            group("variational.sd"),
            float(scalars["noise_variance"]),
            tuple(scalars["elbo"]),
            float("nan") if mse is None else float(mse),
            float(scalars["kl_weight"]),
        )
        source = replace(source, variational=fit)
    if "snapshots" in entry:
        rank = int(entry["snapshots"]["rank"])
        snapshots = Snapshots(
            group("snapshots.mean"),
            group("snapshots.diagonal"),
            group("snapshots.deviations", rank),
        )
        source = replace(source, snapshots=snapshots)
    return source


def packed(name: str, value: Tensor) -> dict[str, Tensor]:
    """Return a tensor (..., columns) without columns of one value, as tensors by name.

    If columns have different single values, those with the most frequent value are left out.
    """
    rows = value.reshape(-1, value.shape[-1])
    is_constant = (rows == rows[0]).all(0)
    if value.ndim < 2 or not bool(is_constant.any()):
        return {name: value}
    fill = rows[0][is_constant].float().mode().values.to(value.dtype)
    is_stored = ~(is_constant & (rows[0] == fill))
    return {
        name: value[..., is_stored],
        name + _IS_STORED: is_stored,
        name + _FILL: fill.reshape(1),
    }


def unpacked(arrays: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the tensor that was given to `packed` under this name, in float32."""
    value = arrays[name].float()
    if name + _IS_STORED not in arrays:
        return value
    full = torch.full(_shape(arrays, name), float(arrays[name + _FILL]))
    full[..., arrays[name + _IS_STORED]] = value
    return full


def _shape(arrays: Mapping[str, Tensor], name: str) -> tuple[int, ...]:
    """Return the shape of the tensor that `unpacked` makes."""
    value = arrays[name]
    return (*value.shape[:-1], arrays.get(name + _IS_STORED, value).shape[-1])
