"""The source models that a workspace may start from: shipped with the package, trained in it, or added to it.

Read without torch: cards and learning curves are in the manifest of a source's folder. The job that trained a source
or checked one that was added is what makes it the workspace's own.
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
OWN = {
    "train_source": "here",
    "add_source": "elsewhere",
}  # jobs that make a source the workspace's own, and where from


@dataclass(frozen=True)
class Source:
    """A source model: its name, its folder, what its manifest says, and the job that made it ours (None: shipped).

    `problem` is the sentence that says why a manifest cannot be read.
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
        """What the source was trained on."""
        return dict(self.manifest.get("card", {}))

    @property
    def parts(self) -> frozenset[str]:
        """Which of the parts beyond the point estimate the source has: fisher, variational, snapshots."""
        return frozenset(self.manifest.get("extras", {}))


def sources_of(jobs: JobStore, library: Library, workspace: str) -> dict[str, Source]:
    """Return the source models of a workspace by id, those of the package first, then the newest of its own."""
    found = {}
    for source_id, entry in library.shipped_sources().items():
        folder = Path(entry.folder)
        manifest, _ = _manifest(folder)
        found[source_id] = Source(
            source_id, entry.title, folder, manifest or {"card": dict(entry.card)}
        )
    for job in jobs.jobs(workspace, kinds=list(OWN), limit=500):
        if job.state == "finished":
            folder = library.home.source_folder(job.subject)
            manifest, problem = _manifest(folder)
            facts = (str(job.payload["name"]), folder, manifest, job.id, problem, OWN[job.kind])
            found[job.subject] = Source(job.subject, *facts)
    return found


def source_path(library: Library, workspace: str, source_id: str) -> str:
    """Return the folder of a source model that this workspace may start from.

    Raises InputError when there is none of that id.
    """
    known = sources_of(JobStore(library.home), library, workspace)
    if source_id not in known:
        names = ", ".join(sorted(known)) or "none yet"
        raise InputError(f"No source model {source_id!r}. Known: {names}. Choose one of these.")
    return str(known[source_id].folder)


def delete_source(jobs: JobStore, library: Library, workspace: str, source_id: str) -> None:
    """Remove a source model that was trained in this workspace or added to it; runs that started from it stay usable.

    Raises InputError for one that is not the workspace's own, and while a job trains it or starts from it.
    """
    own = [
        job for job in jobs.jobs(workspace, kinds=list(OWN), limit=500) if job.subject == source_id
    ]
    if not own:
        raise InputError("This workspace has not trained that source model; it cannot delete it.")
    starting = jobs.jobs(workspace, kinds=["transfer"], limit=10_000)
    busy = [job for job in (*own, *starting) if job.active and _uses(job, source_id)]
    if busy:
        raise InputError(
            f"{busy[0].title} is {busy[0].state}. Cancel it first, then delete the source model."
        )
    shutil.rmtree(library.home.source_folder(source_id), ignore_errors=True)
    jobs.forget(workspace, own)


def _uses(job: Job, source_id: str) -> bool:
    return source_id in (job.subject, job.payload.get("source"))


def _manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest of a source's folder, or an empty one and why.

    That of several sets or networks is the first network's, with the card of them all and the extras that all have.
    """
    try:
        manifest = _read(folder)
        if manifest.get("kind") == "sources":
            parts = [
                _read(folder / path) for member in manifest["members"] for path in member.values()
            ]
            shared = set.intersection(*(set(part.get("extras", {})) for part in parts))
            extras = {
                name: entry for name, entry in parts[0].get("extras", {}).items() if name in shared
            }
            manifest = {
                **parts[0],
                "card": joined_card(manifest["cards"].values()),
                "extras": extras,
                "history": [],
            }
    except (OSError, ValueError) as error:
        return (
            {},
            f"its folder cannot be read ({type(error).__name__}). Train it again; runs made with it are safe.",
        )
    except DAMAGE:
        return {}, "its manifest is damaged. Train it again."
    return manifest, ""


def _read(folder: Path) -> dict[str, Any]:
    found = read_json(folder / MANIFEST)
    if not isinstance(found, dict):
        raise TypeError
    return found
