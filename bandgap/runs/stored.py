"""Stored runs: a folder with safetensors files and a manifest.json, without pickle.

Every run contains up to five reference structures with their predictions. They are recomputed when
the run is loaded, as a self-check.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import with_baseline_column
from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.foundation.arguments import as_folder
from bandgap.posterior import Diagnostics, Posterior, restored_posterior
from bandgap.posterior.layer_cache import without_layer_cache
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.domain import Domain
from bandgap.sources.stored_descriptor import load_descriptor, save_descriptor
from bandgap.storage.arrays import Arrays, check_shapes, load_arrays, save_arrays
from bandgap.storage.hub import local_folder
from bandgap.storage.manifests import (
    RECORD,
    SCHEMA,
    SUMMARIES,
    damage_reported,
    read_manifest,
    versions,
    write_manifest,
)
from bandgap.storage.references import (
    N_REFERENCES,
    check_references,
    reference_baseline_eV,
    reference_rows,
)
from bandgap.storage.stored_fields import load_fields, save_fields, stored_fields
from bandgap.structures import StructureRecord

if TYPE_CHECKING:
    from bandgap.runs.known_structures import KnownStructures

DRAWS = "draws.safetensors"
DOMAIN = "domain.safetensors"


@dataclass(frozen=True, eq=False)
class Run:
    """A stored run: posterior, descriptor, applicability domain and manifest.

    `conformal` are the scores of the structures that were held back from the fit, or None.
    `known_structures` are those that it learned from or was tested on. `folder` is the one that it
    was loaded from.
    """

    posterior: Posterior
    descriptor: DescriptorConfig
    domain: Domain
    manifest: dict[str, Any]
    conformal: ConformalScores | None
    known_structures: "KnownStructures"
    folder: Path

    @property
    def baseline(self) -> str:
        """Name of the baseline that the run needs of every structure, "" for none."""
        return str(self.manifest["request"]["baseline"])

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the run with a model card to the Hugging Face Hub, and return its address.

        `load_run("hf://OWNER/NAME")`, `load_model` and the commands then take it. The files are
        those of a zip of the run: with the coordinates of five structures that it learned from, and
        the identifiers of all and the gaps of the held-out ones. Files of an earlier run are
        replaced.

        Parameters
        ----------
        repo_id
            OWNER/NAME of the repository, which is created if there is none.
        private
            Whether a new repository is private.

        Raises
        ------
        ConfigError
            If the extra hub is not installed.
        InputError
            Where the hub refuses the upload, or cannot be reached.
        """
        from bandgap.runs.model_card import model_card
        from bandgap.storage.hub import upload_run

        card = model_card(self.folder, self.manifest, self.domain, repository=repo_id)
        return upload_run(self.folder, repo_id, card, private=private)


def save_run(
    folder: Path,
    posterior: Posterior,
    *,
    descriptor: DescriptorConfig,
    domain: Domain,
    manifest: Mapping[str, Any],
    references: Sequence[StructureRecord],
    baseline_eV: NDArray[np.float64] | None = None,
    traces: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
) -> None:
    """Write a run to a folder.

    Parameters
    ----------
    folder
        Folder to write to; it is made if it does not exist.
    posterior, descriptor, domain
        Parts of the run.
    manifest
        Further entries of the manifest. The plain values of the posterior, the descriptor and the
        reference structures are added here.
    references
        Training structures, of which the first `N_REFERENCES` become reference structures.
    baseline_eV
        Baseline of `references`, (n,), in eV, if the run has one.
    traces
        Draws (chain, draw) by name, stored with the diagnostics.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arrays, plain = stored_fields(posterior)
    save_arrays(arrays, folder / DRAWS)
    save_fields(domain, folder / DOMAIN)
    save_arrays(_arrays_of(posterior.summaries(), np.float64), folder / SUMMARIES)
    record = _arrays_of({**posterior.diagnostics.record, **traces}, np.float32)
    if record:
        save_arrays(record, folder / RECORD)
    reference_records = list(references[:N_REFERENCES])
    baseline = None if baseline_eV is None else baseline_eV[:N_REFERENCES]
    inputs = with_baseline_column(featurize(reference_records, descriptor).features, baseline)
    predicted = posterior.mean_draws_eV(inputs).mean((0, 1))
    entries = {
        "schema": SCHEMA,
        "kind": "run",
        "descriptor": save_descriptor(folder, descriptor),
        "posterior": plain,
        "shapes": {name: list(value.shape) for name, value in arrays.items()},
        "references": reference_rows(reference_records, predicted, baseline_eV=baseline),
        "versions": versions(),
    }
    write_manifest(folder, {**entries, **manifest})


def _arrays_of(arrays: Mapping[str, NDArray[Any]], dtype: type[Any]) -> Arrays:
    return {name: np.array(values, dtype=dtype) for name, values in arrays.items()}


def load_run(folder: Path | str, *, verify: bool = True) -> Run:
    """Load a run by its folder, or from the Hugging Face Hub by hf://OWNER/NAME.

    Raises ArtifactError when it is missing or damaged, or when its self-check fails, and
    ConfigError or InputError where it cannot be downloaded (`storage.hub.local_folder`).
    """
    path = local_folder(as_folder(folder, name="folder of the run"))
    manifest = read_manifest(path, kind="run")
    with damage_reported(path):
        descriptor = load_descriptor(path, manifest["descriptor"])
        posterior = _posterior_of(path, manifest)
        conformal = conformal_of(manifest)
        domain = load_fields(Domain, path / DOMAIN)
        if verify:
            baseline = reference_baseline_eV(manifest)

            def predict(records: Sequence[StructureRecord]) -> NDArray[Any]:
                inputs = with_baseline_column(
                    featurize(list(records), descriptor).features, baseline
                )
                means: NDArray[Any] = posterior.mean_draws_eV(inputs).mean((0, 1))
                return means

            with without_layer_cache():
                check_references(path, manifest, predict)
    from bandgap.runs.known_structures import load_known

    return Run(posterior, descriptor, domain, manifest, conformal, load_known(path), path)


def _posterior_of(folder: Path, manifest: Mapping[str, Any]) -> Posterior:
    """Return the posterior of a run.

    Raises ArtifactError where a tensor has another shape than the manifest states.
    """
    arrays = load_arrays(folder / DRAWS)
    stored = {name: value.shape for name, value in arrays.items()}
    shapes = manifest["shapes"]
    check_shapes(folder / DRAWS, stored, {name: tuple(shape) for name, shape in shapes.items()})
    return restored_posterior(
        arrays, manifest["posterior"], Diagnostics({}, tuple(manifest.get("warnings", ())))
    )


def conformal_of(manifest: Mapping[str, Any]) -> ConformalScores | None:
    """Return the conformal scores in a manifest, None if the run held back no structures."""
    stored = manifest.get("conformal")
    if stored is None:
        return None
    return ConformalScores(tuple(stored["ids"]), np.array(stored["scores"], dtype=float))
