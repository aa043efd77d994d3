"""Jobs about data sets: verdicts, demo, folder of the server, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.disk import check_quota
from bandgap.jobs.home import Home, shapes_path
from bandgap.jobs.library import Library
from bandgap.jobs.rows import StoredFile
from bandgap.jobs.server_files import files_of
from bandgap.jobs.tasks.records import Work, spool_records, verdict
from bandgap.jobs.uploaded_gaps import store_gaps
from bandgap.structures.shapes import Shape, save_shapes

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord

# The limits of `bandgap.structures.Limits`:
MAX_FILE_BYTES = 200_000_000
MAX_ARCHIVE_BYTES = 1_000_000_000
MAX_FILES = 100_000
_REPORT_EVERY = 50  # structures between two reports of progress


def check(work: Work) -> dict[str, Any]:
    """Read the files of a data set and store a verdict for every structure.

    Only one file is in memory at a time. Gaps in the payload are stored too.
    """
    from bandgap.structures.near_copies import near_copy_counts
    from bandgap.structures.same_crystals import crystal_groups, with_copies_named

    library = work.library
    dataset_id = work.dataset.id
    records = spool_records(library, work.dataset, progress=work.progress)
    work.progress(Update("looking for repeated structures"))
    records_with_warnings = with_copies_named(records, crystal_groups(records))
    library.save_verdicts(dataset_id, map(verdict, records_with_warnings))
    if "gaps" in work.job.payload:
        store_gaps(library, dataset_id, work.job.payload["gaps"])
    write_shapes(work.home, dataset_id, records, n=len(records), progress=work.progress)
    return {
        "n": len(records),
        "refused": records.tally.counts["refused"],
        **near_copy_counts(records),
    }


def import_demo(work: Work) -> dict[str, Any]:
    """Store the crystals of a demo and their gaps as a data set."""
    work.progress(Update("reading the demo crystals"))
    dataset_id = work.dataset.id
    demo = DEMOS[work.dataset.origin].load()
    gaps = np.asarray(demo.gaps_eV, dtype=np.float64)
    verdicts = [
        verdict(record, gap=float(gap)) for record, gap in zip(demo.records, gaps, strict=True)
    ]
    work.library.save_verdicts(dataset_id, verdicts)
    labels = {"source": f"demo data ({demo.licence})", "matched": int(np.isfinite(gaps).sum())}
    level = demo.level_of_theory
    work.library.save_gaps(dataset_id, gaps, labels=labels, level_of_theory=level)
    write_shapes(work.home, dataset_id, demo.records, n=len(verdicts), progress=work.progress)
    return {"n": len(verdicts)}


def import_folder(work: Work) -> dict[str, Any]:
    """Store the files of an entry of the server's folder as those of a data set, and check them."""
    entry = work.job.payload["entry"]
    stored = store_files(
        work.library, work.job.workspace, files_of(entry), name=entry, progress=work.progress
    )
    work.library.add_files(work.dataset.id, stored)
    return check(work)


def store_files(
    library: Library,
    workspace: str,
    files: Sequence[tuple[str, Path]],
    *,
    name: str,
    progress: Progress = no_progress,
) -> list[StoredFile]:
    """Copy files (name and path of each) of this machine into the data directory.

    Raises InputError when there are none, and over the limits and the workspace's quota.
    """
    sizes = [path.stat().st_size for _, path in files]
    if not files:
        raise InputError(f"{name}: there is no file in it. Choose another file or folder.")
    if len(files) > MAX_FILES:
        raise InputError(
            f"{name}: {len(files):,} files; at most {MAX_FILES:,} are accepted. Put "
            "them into zip archives."
        )
    for (text, _), n_bytes in zip(files, sizes, strict=True):
        limit = MAX_ARCHIVE_BYTES if text.lower().endswith(".zip") else MAX_FILE_BYTES
        if n_bytes > limit:
            raise InputError(
                f"{text} has {n_bytes / 1e6:,.0f} MB; at most {limit / 1e6:,.0f} MB "
                "are accepted. Split it."
            )
    check_quota(library, workspace, adding=sum(sizes))
    stored = []
    for done, (text, path) in enumerate(files):
        progress(Update("copying files", done, len(files), message=text))
        data = path.read_bytes()
        stored.append(StoredFile(text, library.home.save_upload(data), len(data)))
    return stored


def shapes(work: Work) -> dict[str, Any]:
    """Write the shapes of a data set again; verdicts and gaps are not changed."""
    records = spool_records(work.library, work.dataset, progress=work.progress)
    write_shapes(work.home, work.dataset.id, records, n=len(records), progress=work.progress)
    return {"n": len(records)}


def write_shapes(
    home: Home, dataset_id: str, records: Iterable[StructureRecord], *, n: int, progress: Progress
) -> None:
    """Write the shapes of the `n` structures of a data set, which the viewer draws, to one file."""
    from bandgap.structures.drawing import shape_of

    def shapes_with_progress() -> Iterator[Shape | None]:
        for done, record in enumerate(records):
            if done % _REPORT_EVERY == 0:
                progress(Update("finding bonds and contacts", done, n, message=record.id))
            yield shape_of(record)

    save_shapes(shapes_path(home, dataset_id), shapes_with_progress())
