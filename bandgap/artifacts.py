"""Stored source models and runs: safetensors and one manifest.json a folder. Nothing is unpickled.

Every artifact carries up to five reference structures with their predictions, which are recomputed when it is loaded.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.config import fingerprint, from_dict, to_dict
from bandgap.conformal import ConformalScores
from bandgap.descriptors import MBTRConfig, featurize
from bandgap.domain import Domain
from bandgap.errors import ArtifactError, InputError
from bandgap.extras import load_extras, save_extras
from bandgap.manifests import SCHEMA, read_manifest, versions, write_manifest
from bandgap.networks import NetworkConfig, forward
from bandgap.posterior import Diagnostics, Posterior, restore_posterior
from bandgap.references import N_REFERENCES, check_references, reference_rows
from bandgap.source import SourceCard, SourceConfig, SourceModel
from bandgap.source_statistics import FeatureStatistics
from bandgap.standardise import Standardiser
from bandgap.structures import StructureRecord
from bandgap.tensor_files import load_tensors, save_tensors
from bandgap.training import Epoch

WEIGHTS, DRAWS = "weights.safetensors", "draws.safetensors"
DOMAIN, SUMMARIES = "domain.safetensors", "summaries.safetensors"
RECORD = "diagnostics.safetensors"

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished transfer as it is stored: posterior, descriptor, applicability domain and manifest.

    `conformal` are the scores of the structures that were held back from the fit, None where none were.
    """

    posterior: Posterior
    descriptor: MBTRConfig
    domain: Domain
    manifest: dict[str, Any]
    conformal: ConformalScores | None = None


def save_source(folder: Path, source: SourceModel, *, references: Sequence[StructureRecord]) -> None:
    """Write a source model; `references` are up to five of its training structures."""
    folder.mkdir(parents=True, exist_ok=True)
    scale = source.standardiser
    arrays = {f"param.{k}": v for k, v in source.params.items()} | scale.to_arrays()
    if source.features is not None:
        arrays |= {f"features.{k}": torch.from_numpy(getattr(source.features, k)) for k in ("mean", "scatter")}
    save_tensors(arrays, folder / WEIGHTS)
    extras = save_extras(folder, source)
    chosen = list(references[:N_REFERENCES])
    predicted = source_predictions_eV(source, _features(chosen, source.descriptor))
    manifest = {
        "schema": SCHEMA,
        "kind": "source",
        "card": to_dict(source.card),
        "network": to_dict(source.network),
        "config": to_dict(source.config),
        "descriptor": to_dict(source.descriptor),
        "gaps": {"mean_eV": scale.y_mean_eV, "sd_eV": scale.y_sd_eV},
        "x_power": scale.power,
        "features": None
        if source.features is None
        else {"n": source.features.n, "residual_variance": source.features.residual_variance},
        "extras": extras,
        "history": [[e.train, e.validation] for e in source.history],
        "references": reference_rows(chosen, predicted),
        "metrics": _metrics(source),
        "versions": versions(),
    }
    write_manifest(folder, manifest)


def load_source(folder: Path | str, *, verify: bool = True, extras: bool = True) -> SourceModel:
    """Load a source model, with its Fisher information, variational posterior and snapshots or without.

    Raises ArtifactError when it is missing, damaged or fails its self-check.
    """
    path = Path(folder)
    manifest = read_manifest(path, kind="source")
    with _damage(path):
        network = from_dict(NetworkConfig, manifest["network"])
        expected = {f"param.{k}": s for k, s in network.shapes.items()}
        arrays = load_tensors(path / WEIGHTS, expected | dict.fromkeys(("x_mean", "x_scale"), (network.n_features,)))
        x_mean, x_scale, gaps = arrays["x_mean"].numpy(), arrays["x_scale"].numpy(), manifest["gaps"]
        source = SourceModel(
            {name.removeprefix("param."): value for name, value in arrays.items() if name.startswith("param.")},
            network,
            Standardiser(x_mean, x_scale, gaps["mean_eV"], gaps["sd_eV"], float(manifest.get("x_power", 1.0))),
            from_dict(MBTRConfig, manifest["descriptor"]),
            from_dict(SourceCard, manifest["card"]),
            from_dict(SourceConfig, manifest["config"]),
            tuple(Epoch(*pair) for pair in manifest["history"]),
            _features_of(arrays, manifest.get("features")),
        )
        source = load_extras(path, source, manifest.get("extras", {}) if extras else {})
    if verify:
        with _damage(path):
            check_references(
                path, manifest, lambda records: source_predictions_eV(source, _features(records, source.descriptor))
            )
    return source


def _metrics(source: SourceModel) -> dict[str, float]:
    """Return the errors of held-out rows in eV: of the point estimate, and of the variational posterior's means."""
    found = {"validation_rmse_eV": source.card.validation_rmse_eV}
    if source.variational is not None:
        found["variational_rmse_eV"] = source.standardiser.y_sd_eV * source.variational.validation_mse**0.5
    return found


def _features_of(arrays: Mapping[str, torch.Tensor], scalars: Mapping[str, Any] | None) -> FeatureStatistics | None:
    if scalars is None:
        return None
    mean, scatter = (arrays[f"features.{name}"].numpy() for name in ("mean", "scatter"))
    return FeatureStatistics(mean, scatter, scalars["n"], scalars["residual_variance"])


def source_predictions_eV(source: SourceModel, features: NDArray[np.floating[Any]]) -> Floats:
    """Return the source network's own predictions (n,) in eV for raw features (n, p)."""
    x = torch.from_numpy(source.standardiser.features(features)).float()
    with torch.no_grad():
        return source.standardiser.gaps_eV(forward(source.params, x).numpy())


def source_fingerprint(source: SourceModel) -> str:
    """Return a fingerprint of the source's weights and settings; extras that it does not have do not enter."""
    total = {name: float(value.double().sum()) for name, value in source.params.items()}
    if source.variational is not None:
        total |= {f"variational.{name}": float(v.double().sum()) for name, v in source.variational.mean.items()}
    if source.snapshots is not None:
        total |= {f"snapshots.{name}": float(v.double().sum()) for name, v in source.snapshots.mean.items()}
    return fingerprint({"card": to_dict(source.card), "descriptor": to_dict(source.descriptor), "sums": total})


def save_run(
    folder: Path,
    posterior: Posterior,
    *,
    descriptor: MBTRConfig,
    domain: Domain,
    manifest: Mapping[str, Any],
    references: Sequence[StructureRecord],
) -> None:
    """Write a run; the posterior's scalars and the references are added to `manifest`."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(posterior.to_arrays(), folder / DRAWS)
    save_tensors({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in domain.to_arrays().items()}, folder / DOMAIN)
    summaries = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in posterior.summaries().items()}
    save_tensors(summaries, folder / SUMMARIES)
    record = {k: torch.from_numpy(np.asarray(v, dtype=np.float32)) for k, v in posterior.diagnostics.record.items()}
    if record:
        save_tensors(record, folder / RECORD)
    chosen = list(references[:N_REFERENCES])
    predicted = posterior.mean_draws_eV(_features(chosen, descriptor)).mean((0, 1))
    own = {
        "schema": SCHEMA,
        "kind": "run",
        "descriptor": to_dict(descriptor),
        "posterior": {"kind": posterior.kind, **posterior.scalars()},
        "references": reference_rows(chosen, predicted),
        "versions": versions(),
    }
    write_manifest(folder, {**own, **manifest})


def load_run(folder: Path | str, *, verify: bool = True) -> Run:
    """Load a run; raises ArtifactError when it is missing, damaged or fails its self-check."""
    path = Path(folder)
    manifest = read_manifest(path, kind="run")
    with _damage(path):
        descriptor = from_dict(MBTRConfig, manifest["descriptor"])
        posterior = restore_posterior(
            load_tensors(path / DRAWS, {}),
            scalars=manifest["posterior"],
            diagnostics=Diagnostics({}, tuple(manifest.get("warnings", ()))),
        )
        conformal = _conformal_of(manifest.get("conformal"))
        domain = Domain.from_arrays({name: value.numpy() for name, value in load_tensors(path / DOMAIN, {}).items()})
        if verify:
            check_references(path, manifest, lambda r: posterior.mean_draws_eV(_features(r, descriptor)).mean((0, 1)))
    return Run(posterior, descriptor, domain, manifest, conformal)


def _conformal_of(stored: Mapping[str, Any] | None) -> ConformalScores | None:
    """Return the scores that a manifest has; runs from before there were any have none."""
    return None if stored is None else ConformalScores(tuple(stored["ids"]), np.array(stored["scores"], dtype=float))


def _features(records: Sequence[StructureRecord], descriptor: MBTRConfig) -> NDArray[np.float32]:
    return featurize(list(records), descriptor).features


@contextlib.contextmanager
def _damage(folder: Path) -> Iterator[None]:
    """Turn what a damaged manifest or tensor file causes into an ArtifactError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, InputError) as error:
        raise ArtifactError(
            f"{folder}: a part of the stored model is missing or damaged ({type(error).__name__}: {error}). "
            "Make the folder again."
        ) from error
