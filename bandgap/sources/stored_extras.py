"""The extras of a stored source: Fisher information, variational posterior and snapshots, in half precision.

One file beside the weights, and one entry of the manifest with its scalars. Means are float16: the rounding, 2^-11 of a
weight, is far below its standard deviation. What is a spread (standard deviations, Fisher information, variances,
deviations of snapshots) is bfloat16, which has the range of float32 and rounds by 2^-8. Columns of a weight that all
hold one value, as those of features that no structure of the source has, are stored as that value: nothing is lost.
"""

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
from bandgap.storage.tensors import check_shapes, load_tensors, save_tensors

EXTRAS = "extras.safetensors"
_KEPT, _FILL = "@kept", "@fill"  # columns that are stored, and the value of the others

_FORMATS = {
    "fisher": torch.bfloat16,
    "variational.mean": torch.float16,
    "variational.sd": torch.bfloat16,
    "snapshots.mean": torch.float16,
    "snapshots.diagonal": torch.bfloat16,
    "snapshots.deviations": torch.bfloat16,
}


def save_extras(folder: Path, source: SourceModel) -> dict[str, Any]:
    """Write the source's extras, where it has any, and return the manifest's entry of them."""
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
        path.unlink(missing_ok=True)  # of an older source in this folder
        return {}
    arrays: dict[str, Tensor] = {}
    for group, params in groups.items():
        for name, value in params.items():
            arrays |= packed(f"{group}.{name}", value.to(_FORMATS[group]))
    save_tensors(arrays, path)
    return entry


def load_extras(folder: Path, source: SourceModel, entry: Mapping[str, Any]) -> SourceModel:
    """Return the source with the extras that the manifest's entry names, in float32.

    Raises ArtifactError where the file is missing or has other shapes than the source's network.
    """
    if not entry:
        return source
    path = folder / EXTRAS
    arrays = unpacked(load_tensors(path, {}))

    def group(prefix: str, *leading: int) -> Params:
        shapes = {name: (*leading, *shape) for name, shape in source.network.shapes.items()}
        check_shapes(path, arrays, {f"{prefix}.{name}": shape for name, shape in shapes.items()})
        return {name: arrays[f"{prefix}.{name}"] for name in shapes}

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
        parts = (
            group("snapshots.mean"),
            group("snapshots.diagonal"),
            group("snapshots.deviations", rank),
        )
        source = replace(source, snapshots=Snapshots(*parts))
    return source


def packed(name: str, value: Tensor) -> dict[str, Tensor]:
    """Return a tensor (..., columns) by name, without the columns in which every entry is one and the same value."""
    rows = value.reshape(-1, value.shape[-1])
    constant = (rows == rows[0]).all(0)
    if value.ndim < 2 or not bool(constant.any()):
        return {name: value}
    fill = rows[0][constant].float().mode().values.to(value.dtype)
    kept = ~(constant & (rows[0] == fill))
    return {name: value[..., kept], name + _KEPT: kept, name + _FILL: fill.reshape(1)}


def unpacked(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what `packed` was given, by name, in float32."""
    full: dict[str, Tensor] = {}
    for name, value in arrays.items():
        if name.endswith((_KEPT, _FILL)):
            continue
        full[name] = value.float()
        if name + _KEPT in arrays:
            kept = arrays[name + _KEPT]
            full[name] = torch.full((*value.shape[:-1], kept.shape[0]), float(arrays[name + _FILL]))
            full[name][..., kept] = value.float()
    return full
