"""Source models that were trained elsewhere: what belongs to one, adding a folder, and the check.

Only manifests and safetensors are copied, as nothing else belongs to a source model.
"""

from pathlib import Path
from typing import Final

from bandgap.foundation.errors import InputError
from bandgap.jobs.additions import Additions
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.storage.manifests import MANIFEST
from bandgap.storage.model_archives import ModelArchives
from bandgap.structures.records import Limits

KINDS: Final = ("source", "sources")  # of manifests: one set, or several sets or networks
SUFFIXES: Final = (".json", ".safetensors")
_REMEDY: Final = (
    "Give the folder that `bandgap train-source` or `bandgap train-sources` wrote (--out)"
)
_ARCHIVES: Final = ModelArchives(
    noun="source model",
    kinds=KINDS,
    belongs=lambda path: path.suffix in SUFFIXES,
    limits=Limits(max_file_bytes=4_000_000_000, max_archive_bytes=4_000_000_000),
    accepted=f"{_REMEDY}, or a zip of it.",
)
SOURCES: Final = Additions("source model", "source", _ARCHIVES, Home.source_folder)


def add_folder(
    jobs: JobStore, library: Library, workspace: str, folder: Path, *, name: str = ""
) -> Job:
    """Add the folder of a source model to a workspace, as its archive.

    The same folder again gives the same job. Raises InputError where the folder contains no source
    model, and over the workspace's quota.
    """
    data = SOURCES.archives.packed(folder, name="source")
    return SOURCES.add_archive(jobs, library, workspace, data, name=name or folder.resolve().name)


def check_source(folder: Path) -> None:
    """Load every network of a source model and recompute its stored predictions.

    Raises ArtifactError where it is damaged, InputError where it names files outside of its folder
    or its learning curve is not of numbers, and ConfigError where an extra that it needs is not
    installed.
    """
    from bandgap.sources.sets import open_sources

    sources = open_sources(folder)
    top = folder.resolve()
    if not all(
        path.resolve().is_relative_to(top) for member in sources.members for path in member.values()
    ):
        raise InputError(
            f"The {MANIFEST} of the source model names a folder outside of its own. {_REMEDY}."
        )
    for member in sources.load():
        for model in member.values():
            curve = [value for epoch in model.history for value in (epoch.train, epoch.validation)]
            if not all(isinstance(value, (int, float)) for value in curve):
                raise InputError(
                    f"The errors by epoch in the source model's {MANIFEST} are "
                    f"no numbers. {_REMEDY}."
                )
