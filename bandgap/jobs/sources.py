"""The source models of a workspace: shipped with the package, trained in it, or added to it.

Needs no torch: cards and learning curves are in the manifest of a source's folder. A source model
belongs to a workspace by the finished job that trained or checked it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import InputError
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.sources.cards import joined_card
from bandgap.storage.manifests import MANIFEST

MAX_NAME = 80
# Kinds of jobs that give a workspace a source model, and where that was trained.
JOB_ORIGINS = {"train_source": "here", "add_source": "elsewhere"}


@dataclass(frozen=True)
class Source:
    """A source model: its title, its folder, its manifest, and its job (None: shipped).

    `problem` says why the manifest cannot be read; it is empty where it can.
    """

    id: str
    title: str
    folder: Path
    manifest: Mapping[str, Any] = field(default_factory=dict)
    job: str | None = None
    problem: str = ""
    trained: str = "with the package"

    @property
    def card(self) -> dict[str, Any]:
        """The card of the source: what it was trained on."""
        return dict(self.manifest.get("card", {}))

    @property
    def parts(self) -> frozenset[str]:
        """The extras of the source beyond the point estimate: fisher, variational, snapshots."""
        return frozenset(self.manifest.get("extras", {}))


def sources_of(jobs: JobStore, library: Library, workspace: str) -> dict[str, Source]:
    """Return the source models of a workspace by id: first the shipped ones, then its newest."""
    sources = {}
    for source_id, entry in library.shipped_sources().items():
        folder = Path(entry.folder)
        manifest, _ = _manifest(folder)
        sources[source_id] = Source(
            source_id, entry.title, folder, manifest or {"card": dict(entry.card)}
        )
    for job in jobs.jobs(workspace, kinds=list(JOB_ORIGINS), limit=500):
        if job.state == "finished":
            folder = library.home.source_folder(job.subject)
            manifest, problem = _manifest(folder)
            sources[job.subject] = Source(
                job.subject,
                str(job.payload["name"]),
                folder,
                manifest,
                job=job.id,
                problem=problem,
                trained=JOB_ORIGINS[job.kind],
            )
    return sources


def stored_potentials(library: Library, source_id: str) -> str:
    """Return the names of the potentials in the features of a source model."""
    shipped = library.shipped_sources().get(source_id)
    folder = (
        library.home.folder / "sources" / source_id if shipped is None else Path(shipped.folder)
    )
    manifest, _ = _manifest(folder)
    descriptor = manifest.get("descriptor", {})
    return f"{descriptor.get('potential')} {descriptor.get('second_potential')}"


def source_path(library: Library, workspace: str, source_id: str) -> str:
    """Return the folder of a source model of this workspace.

    Raises InputError when there is none of that id.
    """
    sources = sources_of(JobStore(library.home), library, workspace)
    if source_id not in sources:
        names = ", ".join(sorted(sources)) or "none yet"
        raise InputError(f"No source model {source_id!r}. Known: {names}. Choose one of these.")
    return str(sources[source_id].folder)


def jobs_of_deletable_source(jobs: JobStore, workspace: str, source_id: str) -> list[Job]:
    """Return the jobs that made or added a source model; raises InputError as `delete_source`."""
    source_jobs = [
        job
        for job in jobs.jobs(workspace, kinds=list(JOB_ORIGINS), limit=500)
        if job.subject == source_id
    ]
    if not source_jobs:
        raise InputError("This workspace has not trained that source model; it cannot delete it.")
    users = jobs.jobs(workspace, kinds=["transfer", "learning_curve"], limit=10_000)
    active = [job for job in (*source_jobs, *users) if job.active and _uses(job, source_id)]
    if active:
        raise InputError(
            f"{active[0].title} is {active[0].state}. "
            "Cancel it first, then delete the source model."
        )
    return source_jobs


def delete_source(jobs: JobStore, library: Library, workspace: str, source_id: str) -> None:
    """Remove a source model that was trained in this workspace or added to it.

    Runs that started from it stay usable. Raises InputError for one that does not belong to the
    workspace, and while a job trains it or starts from it.
    """
    source_jobs = jobs_of_deletable_source(jobs, workspace, source_id)
    shutil.rmtree(library.home.source_folder(source_id), ignore_errors=True)
    jobs.forget(workspace, source_jobs)


def _uses(job: Job, source_id: str) -> bool:
    return source_id in (job.subject, job.payload.get("source"))


def _manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest of a source's folder, and why it cannot be read (then it is empty).

    For several sets or networks it is the manifest of the first network, with the joined card and
    the extras that all networks have.
    """
    try:
        manifest = _read(folder)
        if manifest.get("kind") == "sources":
            parts = [
                _read(folder / path) for member in manifest["members"] for path in member.values()
            ]
            shared = set.intersection(*(set(part.get("extras", {})) for part in parts))
            first_extras = parts[0].get("extras", {})
            manifest = {
                **parts[0],
                "card": joined_card(manifest["cards"].values()),
                "extras": {name: first_extras[name] for name in first_extras if name in shared},
                "history": [],
                "warnings": manifest.get("warnings", []),
            }
    except (OSError, ValueError) as error:
        problem = (
            f"its folder cannot be read ({type(error).__name__}). "
            "Train it again; runs made with it are safe."
        )
        return {}, problem
    except DAMAGE:
        return {}, "its manifest is damaged. Train it again."
    return manifest, ""


def _read(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict):
        raise TypeError
    return manifest
