"""Records of a data set, its labelled set, and the verdict of a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bandgap.datasets.gaps import LEVEL_COLUMN
from bandgap.datasets.units import TO_EV, Unit, unit_of_name
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, RunRow, Verdict
from bandgap.jobs.store import Job

if TYPE_CHECKING:
    from bandgap.datasets.own_features import OwnFeatures
    from bandgap.datasets.table import LabelledSet
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.runs.requests import TransferRequest
    from bandgap.structures import StructureRecord
    from bandgap.structures.spool import Spool


@dataclass(frozen=True)
class Work:
    """A job that was claimed, the data directory, and the progress of the job."""

    job: Job
    home: Home
    progress: Progress

    @cached_property
    def library(self) -> Library:
        """Data sets and runs."""
        return Library(self.home)

    @cached_property
    def dataset(self) -> Dataset:
        """The data set of the payload; raises InputError where the workspace has none such."""
        return self.library.dataset(self.job.workspace, str(self.job.payload["dataset"]))

    @cached_property
    def run(self) -> RunRow:
        """The run of the payload; raises InputError where the workspace has none such."""
        run = self.library.run(self.job.workspace, str(self.job.payload["run"]))
        if run is None:
            raise InputError("This workspace has no such run. Choose a finished run from the list.")
        return run

    @property
    def cache(self) -> DescriptorCache:
        """The descriptor cache of the data directory."""
        from bandgap.descriptors.cache import DescriptorCache

        return DescriptorCache(self.home.cache)


def read_records(
    library: Library, dataset: Dataset, *, progress: Progress
) -> list[StructureRecord]:
    """Return all records of a data set, at least one for every file, always in the same order."""
    from bandgap.structures.ids import with_unique_ids

    return with_unique_ids(list(_records(library, dataset, progress=progress)))


def spool_records(library: Library, dataset: Dataset, *, progress: Progress) -> Spool:
    """Return the records of `read_records` on the disk; only one file is in memory at a time."""
    from bandgap.structures.spool import Spool

    return Spool(_records(library, dataset, progress=progress))


def _records(
    library: Library, dataset: Dataset, *, progress: Progress
) -> Iterator[StructureRecord]:
    """Yield the records of a data set file by file, with ids that are unique within a file."""
    if demo := DEMOS.get(dataset.origin):
        progress(Update("reading structures"))
        yield from demo.load().records
        return
    from bandgap.structures.spool import Spool
    from bandgap.structures.uploads import read_upload

    files = library.files(dataset.id)
    for done, file in enumerate(files):
        progress(Update("reading structures", done, len(files), message=file.name))
        yield from Spool(read_upload(library.home.upload_path(file.content), file.name))
    progress(Update("reading structures", len(files), len(files)))


def labelled_set(
    library: Library,
    dataset: Dataset,
    request: TransferRequest | None = None,
    *,
    licence: str = "",
    progress: Progress,
) -> LabelledSet:
    """Return the structures with a gap that are not refused.

    The baseline of a request names a number of the structures in the store. It becomes the set's
    baseline, NaN where a structure has none. The features of a request are the place of an uploaded
    table of own features. Raises InputError when the files no longer contain the checked
    structures, when the name of the baseline has no unit, and for a table that cannot be used.
    """
    from bandgap.datasets.table import LabelledSet

    baseline = "" if request is None else request.baseline
    unit = baseline_unit(dataset, baseline) if baseline else "eV"
    records = read_records(library, dataset, progress=progress)
    verdicts = library.verdicts(dataset.id)
    if [record.id for record in records] != [v.id for v in verdicts]:
        raise InputError(
            f"{dataset.name}: the files give other structures than when they were "
            "checked. Upload them again."
        )
    usable_rows = [
        k for k, v in enumerate(verdicts) if v.gap_eV is not None and records[k].status != "refused"
    ]
    gaps = np.array([verdicts[k].gap_eV for k in usable_rows], dtype=np.float64)
    baseline_eV = None
    if baseline:
        values = [verdicts[k].info.get(baseline, np.nan) for k in usable_rows]
        baseline_eV = np.array(values, dtype=np.float64) * TO_EV[unit]
    labelled = [records[k] for k in usable_rows]
    if table := uploaded_features(library.home, "" if request is None else request.features):
        labelled = table.matched(labelled)
    return LabelledSet(
        labelled,
        gaps,
        level_of_theory=dataset.level_of_theory,
        licence=licence,
        baseline_eV=baseline_eV,
    )


def uploaded_features(home: Home, place: str) -> OwnFeatures | None:
    """Return an uploaded table of own features, None for no place (digest/name).

    Raises InputError for a table that cannot be used, and where the upload is gone.
    """
    if not place:
        return None
    from bandgap.datasets.own_features import uploaded

    digest, _, name = place.partition("/")
    return uploaded(home.read_upload(digest), name)


def baseline_unit(dataset: Dataset, name: str) -> Unit:
    """Return the unit in which the store has the number of this name.

    Columns of a table are stored in eV, a number of the files in the unit that its name states.
    Raises InputError where the name states no unit, or one that is not accepted.
    """
    if name in dataset.labels.get("beside", {}):
        return "eV"
    remedy = " Rename this number in the files, for example to gap_pbe_eV, and upload them again."
    return unit_of_name(name, None, what="the number", remedy=remedy)


def verdict(record: StructureRecord, *, gap: float | None = None) -> Verdict:
    """Return what is stored of a record: its verdict, and numbers and level in its file."""
    numbers: dict[str, float | str] = {
        key: float(value)
        for key, value in record.info.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
    }
    if level := record.info.get(LEVEL_COLUMN):
        numbers[LEVEL_COLUMN] = str(level)
    has_gap = gap is not None and np.isfinite(gap)
    return Verdict(
        id=record.id,
        file=record.file,
        status=record.status,
        problem=record.problem,
        formula=record.formula,
        n_atoms=record.n_atoms,
        periodic=record.periodic,
        gap_eV=gap if has_gap else None,
        info=numbers,
    )
