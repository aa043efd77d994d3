"""Stored source models: safetensors files and one manifest.json in a folder. Nothing is unpickled.

Each has up to five reference structures with their predictions, which are recomputed when it is
loaded.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.descriptors import featurize
from bandgap.foundation.arguments import as_folder
from bandgap.foundation.config import fingerprint, from_dict, to_dict
from bandgap.networks.perceptron import NetworkConfig, forward
from bandgap.networks.standardise import Standardiser
from bandgap.networks.training import Epoch
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.statistics import FeatureStatistics
from bandgap.sources.stored_descriptor import load_descriptor, save_descriptor
from bandgap.sources.stored_extras import load_extras, save_extras
from bandgap.storage.manifests import (
    SCHEMA,
    damage_reported,
    read_manifest,
    versions,
    write_manifest,
)
from bandgap.storage.references import N_REFERENCES, check_references, reference_rows
from bandgap.storage.tensors import load_tensors, save_tensors
from bandgap.structures import StructureRecord

WEIGHTS = "weights.safetensors"

Floats = NDArray[np.float64]


def save_source(
    folder: Path,
    source: SourceModel,
    *,
    references: Sequence[StructureRecord],
    entries: Mapping[str, Any] | None = None,
) -> None:
    """Write a source model; up to five of its training structures `references` are stored.

    `entries` are further ones of the manifest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scale = source.standardiser
    arrays = {f"param.{k}": v for k, v in source.params.items()}
    arrays |= {k: torch.from_numpy(getattr(scale, k)) for k in ("x_mean", "x_scale")}
    if source.features is not None:
        arrays |= {
            f"features.{k}": torch.from_numpy(getattr(source.features, k))
            for k in ("mean", "scatter")
        }
    save_tensors(arrays, folder / WEIGHTS)
    extras = save_extras(folder, source)
    stored_references = list(references[:N_REFERENCES])
    described = featurize(stored_references, source.descriptor)
    predictions = source_predictions_eV(source, described.features)
    statistics = None
    if source.features is not None:
        statistics = {
            "n": source.features.n,
            "residual_variance": source.features.residual_variance,
        }
    manifest = {
        "schema": SCHEMA,
        "kind": "source",
        "card": to_dict(source.card),
        "network": to_dict(source.network),
        "config": to_dict(source.config),
        "descriptor": save_descriptor(folder, source.descriptor),
        "gaps": {"mean_eV": scale.y_mean_eV, "sd_eV": scale.y_sd_eV},
        "x_power": scale.power,
        "features": statistics,
        "extras": extras,
        "history": [[e.train, e.validation] for e in source.history],
        "references": reference_rows(stored_references, predictions),
        "metrics": _metrics(source),
        "versions": versions(),
    }
    write_manifest(folder, manifest | dict(entries or {}))


def load_source(folder: Path | str, *, verify: bool = True, extras: bool = True) -> SourceModel:
    """Load a source model.

    Parameters
    ----------
    folder
        Its folder.
    verify
        Whether to recompute the reference predictions.
    extras
        Whether to load Fisher information, variational posterior and snapshots.

    Raises
    ------
    ArtifactError
        If it is missing, damaged or fails its self-check.
    """
    path = as_folder(folder, name="folder of the source")
    manifest = read_manifest(path, kind="source")
    with damage_reported(path):
        network = from_dict(NetworkConfig, manifest["network"])
        shapes = {f"param.{name}": shape for name, shape in network.shapes.items()}
        shapes |= dict.fromkeys(("x_mean", "x_scale"), (network.n_features,))
        arrays = load_tensors(path / WEIGHTS, shapes)
        gaps = manifest["gaps"]
        standardiser = Standardiser(
            arrays["x_mean"].numpy(),
            arrays["x_scale"].numpy(),
            gaps["mean_eV"],
            gaps["sd_eV"],
            float(manifest.get("x_power", 1.0)),
        )
        source = SourceModel(
            {
                name.removeprefix("param."): value
                for name, value in arrays.items()
                if name.startswith("param.")
            },
            network,
            standardiser,
            load_descriptor(path, manifest["descriptor"]),
            from_dict(SourceCard, manifest["card"]),
            from_dict(SourceConfig, manifest["config"]),
            tuple(Epoch(*pair) for pair in manifest["history"]),
            _features_of(arrays, manifest.get("features")),
        )
        source = load_extras(path, source, manifest.get("extras", {}) if extras else {})
    if verify:
        with damage_reported(path):
            check_references(
                path,
                manifest,
                lambda r: source_predictions_eV(source, featurize(r, source.descriptor).features),
            )
    return source


def _metrics(source: SourceModel) -> dict[str, float]:
    """Return the errors in eV on held-out rows, on test rows, and of the variational means."""
    metrics = {"validation_rmse_eV": source.card.validation_rmse_eV}
    if source.card.test_rmse_eV is not None:
        metrics["test_rmse_eV"] = source.card.test_rmse_eV
    if source.variational is not None:
        metrics["variational_rmse_eV"] = (
            source.standardiser.y_sd_eV * source.variational.validation_mse**0.5
        )
    return metrics


def _features_of(
    arrays: Mapping[str, torch.Tensor], scalars: Mapping[str, Any] | None
) -> FeatureStatistics | None:
    if scalars is None:
        return None
    mean, scatter = (arrays[f"features.{name}"].numpy() for name in ("mean", "scatter"))
    return FeatureStatistics(mean, scatter, scalars["n"], scalars["residual_variance"])


def source_predictions_eV(source: SourceModel, features: NDArray[np.floating[Any]]) -> Floats:
    """Return the predictions (n,) of the source network in eV for raw features (n, p)."""
    x = torch.from_numpy(source.standardiser.features(features)).float()
    with torch.no_grad():
        return source.standardiser.gaps_eV(forward(source.params, x).numpy())


def source_fingerprint(source: SourceModel) -> str:
    """Return a fingerprint of the source's weights and settings.

    A source without variational posterior or snapshots has the fingerprint of its weights only.
    """
    groups = {"": source.params}
    if source.variational is not None:
        groups["variational."] = source.variational.mean
    if source.snapshots is not None:
        groups["snapshots."] = source.snapshots.mean
    sums = {
        f"{prefix}{name}": float(value.double().sum())
        for prefix, params in groups.items()
        for name, value in params.items()
    }
    return fingerprint(
        {"card": to_dict(source.card), "descriptor": to_dict(source.descriptor), "sums": sums}
    )
