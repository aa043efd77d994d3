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
from bandgap.storage.tensors import check_growth, check_shapes, load_tensors, save_tensors

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


def unpacked(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that were given to `packed`, by name, in float32.

    Raises ValueError where they become too large.
    """
    check_growth(
        arrays,
        (
            4 * math.prod(arrays[name.removesuffix(_IS_STORED)].shape[:-1]) * value.numel()
            for name, value in arrays.items()
            if name.endswith(_IS_STORED)
        ),
    )
    full: dict[str, Tensor] = {}
    for name, value in arrays.items():
        if name.endswith((_IS_STORED, _FILL)):
            continue
        full[name] = value.float()
        if name + _IS_STORED in arrays:
            is_stored = arrays[name + _IS_STORED]
            shape = (*value.shape[:-1], is_stored.shape[0])
            full[name] = torch.full(shape, float(arrays[name + _FILL]))
            full[name][..., is_stored] = value.float()
    return full
