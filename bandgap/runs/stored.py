"""Stored runs: safetensors and one manifest.json a folder. Nothing is unpickled.

Every one carries up to five reference structures with their predictions, which are recomputed when it is loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.datasets.table import with_baseline_column
from bandgap.descriptors import MBTRConfig, featurize
from bandgap.posterior import Diagnostics, Posterior, restore_posterior
from bandgap.posterior.held_layers import in_passing
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.domain import Domain
from bandgap.sources.stored_descriptor import load_descriptor, save_descriptor
from bandgap.storage.manifests import SCHEMA, damage_reported, read_manifest, versions, write_manifest
from bandgap.storage.packed_draws import packed, unpacked
from bandgap.storage.references import N_REFERENCES, check_references, reference_baseline_eV, reference_rows
from bandgap.storage.tensors import load_tensors, save_tensors
from bandgap.structures import StructureRecord

DRAWS = "draws.safetensors"
DOMAIN, SUMMARIES = "domain.safetensors", "summaries.safetensors"
RECORD = "diagnostics.safetensors"


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

    @property
    def baseline(self) -> str:
        """Name of the value beside the features that it needs of every structure, "" for none."""
        return str(self.manifest["request"]["baseline"])


def save_run(
    folder: Path,
    posterior: Posterior,
    *,
    descriptor: MBTRConfig,
    domain: Domain,
    manifest: Mapping[str, Any],
    references: Sequence[StructureRecord],
    baseline_eV: NDArray[np.float64] | None = None,
) -> None:
    """Write a run; the posterior's scalars and some of the references, with their baseline, are added to `manifest`."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(packed(posterior.to_arrays()), folder / DRAWS)
    save_tensors({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in domain.to_arrays().items()}, folder / DOMAIN)
    summaries = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in posterior.summaries().items()}
    save_tensors(summaries, folder / SUMMARIES)
    record = {k: torch.from_numpy(np.asarray(v, dtype=np.float32)) for k, v in posterior.diagnostics.record.items()}
    if record:
        save_tensors(record, folder / RECORD)
    chosen = list(references[:N_REFERENCES])
    baseline = None if baseline_eV is None else baseline_eV[:N_REFERENCES]
    rows = with_baseline_column(featurize(chosen, descriptor).features, baseline)
    predicted = posterior.mean_draws_eV(rows).mean((0, 1))
    own = {
        "schema": SCHEMA,
        "kind": "run",
        "descriptor": save_descriptor(folder, descriptor),
        "posterior": {"kind": posterior.kind, **posterior.scalars()},
        "references": reference_rows(chosen, predicted, baseline_eV=baseline),
        "versions": versions(),
    }
    write_manifest(folder, {**own, **manifest})


def load_run(folder: Path | str, *, verify: bool = True) -> Run:
    """Load a run; raises ArtifactError when it is missing, damaged or fails its self-check."""
    path = Path(folder)
    manifest = read_manifest(path, kind="run")
    with damage_reported(path):
        descriptor = load_descriptor(path, manifest["descriptor"])
        posterior = restore_posterior(
            unpacked(load_tensors(path / DRAWS, {})),
            scalars=manifest["posterior"],
            diagnostics=Diagnostics({}, tuple(manifest.get("warnings", ()))),
        )
        conformal = _conformal_of(manifest.get("conformal"))
        domain = Domain.from_arrays({name: value.numpy() for name, value in load_tensors(path / DOMAIN, {}).items()})
        if verify:
            baseline = reference_baseline_eV(manifest)
            with in_passing():
                check_references(
                    path,
                    manifest,
                    lambda r: posterior.mean_draws_eV(
                        with_baseline_column(featurize(r, descriptor).features, baseline)
                    ).mean((0, 1)),
                )
    return Run(posterior, descriptor, domain, manifest, conformal)


def _conformal_of(stored: Mapping[str, Any] | None) -> ConformalScores | None:
    """Return the scores that a manifest has; runs from before there were any have none."""
    return None if stored is None else ConformalScores(tuple(stored["ids"]), np.array(stored["scores"], dtype=float))
