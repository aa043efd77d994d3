"""Stored source models and runs: safetensors and one manifest.json a folder, checked when loaded. Nothing is unpickled.

Every artifact carries five reference structures with their predictions; loading recomputes them, descriptor included, and
refuses or warns when they differ, because a stored model in a new environment can silently predict something else.
"""

import importlib.metadata
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from bandgap.config import fingerprint, from_dict, to_dict
from bandgap.descriptors import MBTRConfig, featurize
from bandgap.domain import Domain
from bandgap.errors import ArtifactError
from bandgap.networks import NetworkConfig, forward
from bandgap.posterior import Diagnostics, NetworkPosterior
from bandgap.source import SourceCard, SourceConfig, SourceModel
from bandgap.standardise import Standardiser
from bandgap.structures import StructureRecord
from bandgap.training import Epoch

log = logging.getLogger(__name__)

SCHEMA = 1
MANIFEST, WEIGHTS, DRAWS, DOMAIN, SUMMARIES = (
    "manifest.json",
    "weights.safetensors",
    "draws.safetensors",
    "domain.safetensors",
    "summaries.safetensors",
)
N_REFERENCES = 5
REFERENCE_TOLERANCE_EV = 2e-3  # float32 descriptors and weights on another machine differ by less
PACKAGES = ("bandgap", "torch", "dscribe", "ase", "numpy", "scipy", "scikit-learn")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished transfer as it is stored: posterior, descriptor, applicability domain and manifest."""

    posterior: NetworkPosterior
    descriptor: MBTRConfig
    domain: Domain
    manifest: dict[str, Any]


def save_source(folder: Path, source: SourceModel, *, references: Sequence[StructureRecord]) -> None:
    """Write a source model; `references` are up to five of its training structures."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {f"param.{k}": v.contiguous() for k, v in source.params.items()}
        | {"x_mean": torch.from_numpy(source.standardiser.x_mean), "x_scale": torch.from_numpy(source.standardiser.x_scale)},
        folder / WEIGHTS,
    )
    chosen = list(references[:N_REFERENCES])
    predicted = source_predictions_eV(source, _features(chosen, source.descriptor))
    manifest = {
        "schema": SCHEMA,
        "kind": "source",
        "card": to_dict(source.card),
        "network": to_dict(source.network),
        "config": to_dict(source.config),
        "descriptor": to_dict(source.descriptor),
        "gaps": {"mean_eV": source.standardiser.y_mean_eV, "sd_eV": source.standardiser.y_sd_eV},
        "history": [[e.train, e.validation] for e in source.history],
        "references": _references(chosen, predicted),
        "metrics": {"validation_rmse_eV": source.card.validation_rmse_eV},
        "versions": versions(),
    }
    write_manifest(folder, manifest)


def load_source(folder: Path | str, *, verify: bool = True) -> SourceModel:
    """Load a source model; raises ArtifactError when it is missing, damaged or fails its self-check."""
    path = Path(folder)
    manifest = read_manifest(path, kind="source")
    network = from_dict(NetworkConfig, manifest["network"])
    expected = {f"param.{k}": s for k, s in network.shapes.items()}
    arrays = _load(path / WEIGHTS, expected | {"x_mean": (network.n_features,), "x_scale": (network.n_features,)})
    source = SourceModel(
        {name.removeprefix("param."): value for name, value in arrays.items() if name.startswith("param.")},
        network,
        Standardiser(
            arrays["x_mean"].numpy(), arrays["x_scale"].numpy(), manifest["gaps"]["mean_eV"], manifest["gaps"]["sd_eV"]
        ),
        from_dict(MBTRConfig, manifest["descriptor"]),
        from_dict(SourceCard, manifest["card"]),
        from_dict(SourceConfig, manifest["config"]),
        tuple(Epoch(*pair) for pair in manifest["history"]),
    )
    if verify:
        check_references(
            path, manifest, lambda records: source_predictions_eV(source, _features(records, source.descriptor))
        )
    return source


def source_predictions_eV(source: SourceModel, features: NDArray[np.floating[Any]]) -> Floats:
    """Return the source network's own predictions (n,) in eV for raw features (n, p)."""
    x = torch.from_numpy(source.standardiser.features(features)).float()
    with torch.no_grad():
        return source.standardiser.gaps_eV(forward(source.params, x).numpy())


def source_fingerprint(source: SourceModel) -> str:
    """Return a fingerprint of the source's weights and settings."""
    total = {name: float(value.double().sum()) for name, value in source.params.items()}
    return fingerprint({"card": to_dict(source.card), "descriptor": to_dict(source.descriptor), "sums": total})


def save_run(
    folder: Path,
    posterior: NetworkPosterior,
    *,
    descriptor: MBTRConfig,
    domain: Domain,
    manifest: Mapping[str, Any],
    references: Sequence[StructureRecord],
) -> None:
    """Write a run; the posterior's scalars and the references are added to `manifest`."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(posterior.to_arrays(), folder / DRAWS)
    save_file({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in domain.to_arrays().items()}, folder / DOMAIN)
    summaries = {"sigma_eV": posterior.sigma_eV, "c": posterior.layer_weights, "tau": posterior.tau}
    save_file(
        {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in summaries.items() if v is not None}, folder / SUMMARIES
    )
    chosen = list(references[:N_REFERENCES])
    predicted = posterior.mean_draws_eV(_features(chosen, descriptor)).mean((0, 1))
    scale = posterior.standardiser
    own = {
        "schema": SCHEMA,
        "kind": "run",
        "descriptor": to_dict(descriptor),
        "posterior": {"seed": posterior.seed, "y_mean_eV": scale.y_mean_eV, "y_sd_eV": scale.y_sd_eV},
        "references": _references(chosen, predicted),
        "versions": versions(),
    }
    write_manifest(folder, {**own, **manifest})


def load_run(folder: Path | str, *, verify: bool = True) -> Run:
    """Load a run; raises ArtifactError when it is missing, damaged or fails its self-check."""
    path = Path(folder)
    manifest = read_manifest(path, kind="run")
    descriptor = from_dict(MBTRConfig, manifest["descriptor"])
    scalars = manifest["posterior"]
    posterior = NetworkPosterior.from_arrays(
        _load(path / DRAWS, {}),
        y_mean_eV=scalars["y_mean_eV"],
        y_sd_eV=scalars["y_sd_eV"],
        seed=scalars["seed"],
        diagnostics=Diagnostics({}, tuple(manifest.get("warnings", ()))),
    )
    domain = Domain.from_arrays({name: value.numpy() for name, value in _load(path / DOMAIN, {}).items()})
    if verify:
        check_references(path, manifest, lambda r: posterior.mean_draws_eV(_features(r, descriptor)).mean((0, 1)))
    return Run(posterior, descriptor, domain, manifest)


def check_references(folder: Path, manifest: Mapping[str, Any], predict: Any) -> None:
    """Recompute the stored reference predictions; raises ArtifactError naming the structure that differs most."""
    stored = manifest["references"]
    records = [
        StructureRecord(r["id"], "reference", "extXYZ", Atoms(r["numbers"], r["positions"], cell=r["cell"], pbc=r["pbc"]))
        for r in stored
    ]
    if not records:
        return
    expected = np.array([r["mean_eV"] for r in stored])
    difference = np.abs(predict(records) - expected)
    worst = int(np.nanargmax(np.where(np.isnan(difference), np.inf, difference)))
    if not difference[worst] <= REFERENCE_TOLERANCE_EV:
        then, now = manifest.get("versions", {}), versions()
        changed = ", ".join(f"{k} {then[k]} -> {now[k]}" for k in now if k in then and then[k] != now[k]) or "no version"
        raise ArtifactError(
            f"{folder}: the stored model fails its self-check: reference {stored[worst]['id']} gives "
            f"{expected[worst] + difference[worst]:.3f} or less instead of {expected[worst]:.3f} eV. Changed since it was "
            f"stored: {changed}. Install those versions, or train the model again."
        )


def versions() -> dict[str, str]:
    """Return the versions of the packages that a prediction depends on."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            log.warning("%s is not installed as a package; its version is not recorded", package)
    return found


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write manifest.json; numbers that are not finite become null."""
    text = json.dumps(_finite(manifest), indent=1, allow_nan=False)
    partial = folder / (MANIFEST + ".part")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(folder / MANIFEST)


def read_manifest(folder: Path, *, kind: str) -> dict[str, Any]:
    """Return the manifest of a folder of this kind; raises ArtifactError with what is wrong."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtifactError(f"{folder} has no {MANIFEST}. Give the folder that train-source or transfer wrote.")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtifactError(f"{path}: not readable as JSON ({error}). The folder is damaged; make it again.") from error
    if manifest.get("kind") != kind or manifest.get("schema") != SCHEMA:
        raise ArtifactError(
            f"{path} is a {manifest.get('kind')} of schema {manifest.get('schema')}; a {kind} of schema {SCHEMA} is expected here."
        )
    return manifest


def _features(records: Sequence[StructureRecord], descriptor: MBTRConfig) -> NDArray[np.float32]:
    return featurize(list(records), descriptor).features


def _references(records: Sequence[StructureRecord], predicted: Floats) -> list[dict[str, Any]]:
    rows = []
    for record, mean in zip(records, predicted, strict=True):
        atoms = record.atoms
        assert atoms is not None  # refused structures never reach a fit
        rows.append(
            {
                "id": record.id,
                "numbers": atoms.numbers.tolist(),
                "positions": atoms.positions.tolist(),
                "cell": atoms.cell.array.tolist(),
                "pbc": atoms.pbc.tolist(),
                "mean_eV": float(mean),
            }
        )
    return rows


def _load(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    try:
        arrays: dict[str, torch.Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}). The folder is damaged; make it again.") from error
    for name, shape in shapes.items():
        if name not in arrays or tuple(arrays[name].shape) != shape:
            found = tuple(arrays[name].shape) if name in arrays else "nothing"
            raise ArtifactError(f"{path}: tensor {name} has shape {found}, {shape} is expected. The folder is damaged.")
    return arrays


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
