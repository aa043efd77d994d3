"""The networks of a shipped model as source models, one for each fold (`posterior.fold_models`).

Features that are equal in all training rows have no weights. The model limits unusual features;
the source models do not.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.config import from_dict
from bandgap.foundation.errors import ArtifactError
from bandgap.networks.perceptron import NetworkConfig, Params
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.stored_descriptor import load_descriptor
from bandgap.storage.manifests import damage_reported, posterior_of_method, read_manifest
from bandgap.storage.tensors import load_tensors

KIND: Final = "run"
_DRAWS: Final = "draws.safetensors"


def networks_of_run(folder: Path) -> list[dict[str, SourceModel]]:
    """Return the source model of each network of a run.

    Raises ArtifactError unless it is a shipped model of networks.
    """
    manifest = read_manifest(folder, kind=KIND)
    models = posterior_of_method(manifest).get("models") or {}
    place = ".models."
    if "networks" in models:  # beside trees
        models, place = models["networks"], ".models.networks."
    if "card" not in manifest or models.get("kind") != "networks":
        raise ArtifactError(
            f"{folder} is a run, and a source model is expected. Give the folder that train-source "
            "wrote, or the name of a shipped model: pbe."
        )
    with damage_reported(folder):
        arrays = {
            name.rpartition(place)[2]: value
            for name, value in load_tensors(folder / _DRAWS, {}).items()
            if place in f".{name}"
        }
        mean_eV, sd_eV = _scale_of_gaps(manifest["data"]["gaps"])
        descriptor = load_descriptor(folder, manifest["descriptor"])
        card = from_dict(SourceCard, manifest["card"])
        n_features = int(models["n_features"])
        columns = arrays["columns"]
        scales = [
            torch.full((n_features,), fill, dtype=torch.float64).index_copy(0, columns, values)
            for fill, values in ((0.0, arrays["mean"]), (1.0, arrays["scale"]))
        ]
        standardiser = Standardiser(scales[0].numpy(), scales[1].numpy(), mean_eV, sd_eV)
        layers = [
            arrays[f"layers.{k}"].float() for k in range(sum("layers." in name for name in arrays))
        ]
        hidden = tuple(int(layer.shape[1]) for layer in layers[:-1])
        network = NetworkConfig(n_features, hidden)
        return [
            {
                "": SourceModel(
                    _params([layer[fold] for layer in layers], columns, network, standardiser),
                    network,
                    standardiser,
                    descriptor,
                    card,
                    SourceConfig(hidden),
                )
            }
            for fold in range(len(layers[0]))
        ]


def _params(
    layers: list[Tensor], columns: Tensor, network: NetworkConfig, scale: Standardiser
) -> Params:
    """Return the parameters of one network, for all features and standardised gaps."""
    params: Params = {}
    for number, layer in enumerate(layers, start=1):
        params[f"weight.{number}"], params[f"bias.{number}"] = layer[:, :-1], layer[:, -1]
    first = params["weight.1"]
    params["weight.1"] = first.new_zeros(len(first), network.n_features).index_copy(
        1, columns, first
    )
    last = network.n_layers
    params[f"weight.{last}"] = params[f"weight.{last}"] / scale.y_sd_eV
    params[f"bias.{last}"] = (params[f"bias.{last}"] - scale.y_mean_eV) / scale.y_sd_eV
    return {name: value.contiguous() for name, value in params.items()}


def _scale_of_gaps(facts: Mapping[str, Any]) -> tuple[float, float]:
    """Return mean and standard deviation in eV of the gaps above zero, from those of all gaps."""
    share = 1.0 - facts["n_zero"] / facts["n"]
    mean_eV = facts["mean_eV"] / share
    square = (facts["mean_eV"] ** 2 + facts["sd_eV"] ** 2) / share
    return float(mean_eV), float(np.sqrt(square - mean_eV**2))
