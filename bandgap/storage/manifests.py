"""The manifest.json that every stored source and run carries: written whole or not at all, checked
when read.
"""

import contextlib
import importlib.metadata
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.replacement import write_whole

SCHEMA = 1
MANIFEST = "manifest.json"
CALIBRATOR = "calibrator.json"  # in the folder of a run that has a calibrator
SUMMARIES = "summaries.safetensors"
RECORD = "diagnostics.safetensors"
LEARNING_CURVE = "learning_curve.json"  # in the folder of a run whose curve was measured
KNOWN = "known.safetensors"  # ids and distances of the structures of a run
LABELS = "labels.safetensors"  # labelled structures in the folder of a shipped model
PACKAGES = ("bandgap", "torch", "dscribe", "ase", "numpy", "scipy", "scikit-learn")
OPTIONAL = ("chgnet", "sevenn", "torch_geometric")  # of extras that describe structures


def versions() -> dict[str, str]:
    """Return the versions of the packages that a prediction depends on, of extras where they are
    installed.
    """
    fields = {package: importlib.metadata.version(package) for package in PACKAGES}
    for package in OPTIONAL:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            fields[package] = importlib.metadata.version(package)
    return fields


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write manifest.json; numbers that are not finite become null."""
    text = json.dumps(_finite(manifest), indent=1, allow_nan=False)
    write_whole(folder / MANIFEST, text + "\n")


def posterior_kinds(manifest: Mapping[str, Any]) -> list[str]:
    """Return the kinds of a run's posterior, from outside in: what surrounds it, then its own.

    >>> posterior_kinds({"posterior": {"kind": "metals", "semiconductors": {"kind": "pool"}}})
    ['metals', 'pool']
    """
    return [str(posterior.get("kind", "")) for posterior in _posteriors(manifest)]


def posterior_of_method(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the plain values of the posterior of the method in the manifest of a run.

    It is inside that of a baseline, and of metals, where the run has them.
    """
    return _posteriors(manifest)[-1]


# Where the posterior inside another one is.
_INNER = ("semiconductors", "residual")


def _posteriors(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the plain values of the posterior in a manifest and of the one that each contains."""
    posteriors: list[Mapping[str, Any]] = [manifest.get("posterior") or {}]
    while inner := next(filter(None, map(posteriors[-1].get, _INNER)), None):
        posteriors.append(inner)
    return posteriors


def manifest_kind(folder: Path) -> str | None:
    """Return the kind that the manifest of a folder states, None where there is no readable
    manifest.
    """
    try:
        manifest = read_json(folder / MANIFEST)
    except DAMAGE:
        return None
    kind = manifest.get("kind") if isinstance(manifest, dict) else None
    return kind if isinstance(kind, str) else None


def read_manifest(folder: Path, *, kind: str) -> dict[str, Any]:
    """Return the manifest of a folder of this kind; raises ArtifactError with what is wrong."""
    path = folder / MANIFEST
    if not path.is_file():
        if not folder.exists():
            problem = f"{folder}: there is no such folder"
        elif not folder.is_dir():
            problem = f"{folder} is a file, and a folder is expected"
        else:
            problem = f"{folder} has no {MANIFEST}"
        raise ArtifactError(f"{problem}. Give the folder that train-source or transfer wrote.")
    try:
        manifest = read_json(path)
    except DAMAGE as error:
        raise ArtifactError(
            f"{path}: not readable as JSON ({error}). The folder is damaged; make it again."
        ) from error
    if not isinstance(manifest, dict):
        raise ArtifactError(
            f"{path}: not a manifest but a {type(manifest).__name__}. The folder is damaged."
        )
    if manifest.get("kind") != kind or manifest.get("schema") != SCHEMA:
        raise ArtifactError(
            f"{path} is a {manifest.get('kind')} of schema {manifest.get('schema')}; "
            f"a {kind} of schema {SCHEMA} is expected here."
        )
    return manifest


@contextlib.contextmanager
def damage_reported(folder: Path) -> Iterator[None]:
    """Turn what a damaged manifest or tensor file causes into an ArtifactError."""
    try:
        yield
    except (*DAMAGE, InputError) as error:
        raise ArtifactError(
            f"{folder}: a part of the stored model is missing or damaged ({type(error).__name__}: "
            f"{error}). Make the folder again."
        ) from error


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    value = value.item() if hasattr(value, "item") else value  # a number of numpy
    return None if isinstance(value, float) and not math.isfinite(value) else value
