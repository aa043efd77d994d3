"""The models that are shipped: stored runs that predict without labels of the user's own.

The entry `about` of their manifests has `title`, `rmse_eV` of structures of other formulas, their
`errors` by chemistry, `sentences` on the error and on what to do next, and the name of the model
that is the `substitute` where a potential is not installed or refuses a structure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bandgap.datasets.demo_files import (
    INORGANIC,
    data_folder,
    demo_source_folder,
    inorganic_source_folder,
)
from bandgap.descriptors.potentials import NONE, POTENTIALS
from bandgap.foundation.arguments import as_folder
from bandgap.foundation.errors import ArtifactError
from bandgap.storage.hub import local_folder
from bandgap.storage.manifests import read_manifest

MODEL: Final = "pbe"


@dataclass(frozen=True)
class ModelFolder:
    """The folder of a model, and why it is not that of the given name, if it is not."""

    path: Path
    note: str = ""


def model_names() -> list[str]:
    """Return the names of the shipped models."""
    return sorted(path.parent.name for path in (data_folder() / "models").glob("*/manifest.json"))


def find_model(model: Path | str) -> ModelFolder:
    """Return the folder of a run: the path itself, the shipped model of this name, or hf://...

    Raises ArtifactError where there is neither a file, a folder nor a model of this name, and
    ConfigError or InputError where a run on the hub cannot be downloaded.
    """
    path = local_folder(as_folder(model, name="model"))
    if path.exists():
        return ModelFolder(path)
    names = model_names()
    if str(path) not in names:
        raise ArtifactError(
            f"{path}: there is no such folder. Give the folder that `bandgap transfer` wrote, a "
            f"zip of it, hf://OWNER/NAME, or the name of a shipped model: {', '.join(names)}."
        )
    return shipped_folder(str(path))


def shipped_folder(name: str) -> ModelFolder:
    """Return the folder of a shipped model.

    One that needs a potential which is not installed is replaced by the one that needs none.
    """
    folder = data_folder() / "models" / name
    manifest = read_manifest(folder, kind="run")
    potential = POTENTIALS.get(manifest["descriptor"].get("potential", NONE))
    if potential is None or potential.is_installed:
        return ModelFolder(folder)
    substitute = folder.with_name(about_model(manifest)["substitute"])
    rmse_eV = about_model(read_manifest(substitute, kind="run"))["rmse_eV"]
    return ModelFolder(
        substitute,
        f"The package {potential.package} is not installed, so {substitute.name} is used, with an "
        f"RMSE of {rmse_eV:.2f} eV instead of {about_model(manifest)['rmse_eV']:.2f} eV. The extra "
        f"{potential.extra} installs it.",
    )


def folder_of_source(source: Path | str | None) -> Path | None:
    """Return the folder of a source model.

    Unless there is a folder of this name, "demo" and "inorganic" are the shipped source models,
    "pbe" is the shipped model of PBE gaps, and "none" is None. Raises InputError if `source` is not
    a path.
    """
    if source is None:
        return None
    folder = as_folder(source, name="source")
    shipped = {"demo": demo_source_folder, INORGANIC: inorganic_source_folder}
    if folder.exists():
        return folder
    if str(folder) == "none":
        return None
    if str(folder) in shipped:
        return shipped[str(folder)]()
    return shipped_folder(str(folder)).path if str(folder) in model_names() else folder


def about_model(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the manifest of a shipped model says of it; empty for any other run."""
    return dict(manifest.get("about") or {})


def about_sentences(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sentences on a shipped model that follow its predictions; none for another run."""
    return tuple(about_model(manifest).get("sentences", ()))
