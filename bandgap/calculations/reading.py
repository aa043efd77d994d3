"""Find the calculations in folders and archives, and give each its structure, gap and level."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import cast

import numpy as np

from bandgap.calculations.band_edges import GapKind
from bandgap.calculations.records import calculation_items, calculation_parts
from bandgap.calculations.search import (
    NamedPath,
    Place,
    calculation_id,
    calculation_places,
)
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures.contents import Content
from bandgap.structures.ids import RepeatedIds
from bandgap.structures.records import StructureRecord, refused_record
from bandgap.structures.uploads import records_of_child


@dataclass(frozen=True, eq=False)
class Calculation:
    """Result of one file: a structure with its gap, or the reason why there is none.

    Parameters
    ----------
    record
        Structure of the step to which the gap belongs, with problems of structure and gap.
    gap_eV
        Gap in eV, 0 for a metal, NaN if there is none.
    kind
        Whether the gap is direct, None if there is no gap.
    level_of_theory
        Level of theory, such as "PBE+U".
    """

    record: StructureRecord
    gap_eV: float = np.nan
    kind: GapKind | None = None
    level_of_theory: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether there is a gap and a structure."""
        return bool(np.isfinite(self.gap_eV)) and self.record.status != "refused"


def read_calculations(
    paths: Iterable[Path],
    *,
    keep_unconverged: bool = False,
    progress: Progress = no_progress,
) -> list[Calculation]:
    """Read the calculations of folders and their subfolders: VASP and Quantum ESPRESSO.

    Parameters
    ----------
    paths
        Folders, zip archives, or files of any name.
    keep_unconverged
        Whether a gap of an electronic loop that did not converge is used, with a warning.
    progress
        Called before every file.

    Returns
    -------
    list of Calculation
        One for each `vasprun.xml` of VASP and each XML file of Quantum ESPRESSO 6 and later, which
        may be gzipped, in the order of the paths, with unique ids. The id is the path below the
        given folder, or the name of the file. A folder with an OUTCAR alone, or with an output of
        FHI-aims or CRYSTAL, has a result without a gap.

    Raises
    ------
    InputError
        If a path does not exist, or if there is no such file in all paths.
    """
    sources = [(str(path), path) for path in map(Path, paths)]
    for _, path in sources:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")

    def records_of(place: Place) -> Iterator[StructureRecord]:
        content = Content.at(place.path, size=place.path.stat().st_size)
        parts = calculation_parts(content, place.name, keep_unconverged=keep_unconverged)
        return (record for part in parts for record in part.records)

    results = _results(sources, records_of, progress)
    if not results:
        raise InputError(
            "There is no file vasprun.xml or vasprun.xml.gz, and no XML file of Quantum ESPRESSO,"
            " under the given paths. Give the folders of finished calculations."
        )
    return results


def read_uploads(
    sources: Sequence[NamedPath],
    *,
    keep_unconverged: bool = False,
    progress: Progress = no_progress,
) -> list[Calculation]:
    """Read calculations of uploaded files, by the name of each and its path, in a child process.

    The other arguments and the result are those of `read_calculations`; no calculation is no error.
    """

    def records_of(place: Place) -> Iterator[StructureRecord]:
        return records_of_child(
            calculation_items, place.path, place.name, keep_unconverged=keep_unconverged
        )

    return _results(sources, records_of, progress)


def _results(
    sources: Sequence[NamedPath],
    records_of: Callable[[Place], Iterator[StructureRecord]],
    progress: Progress,
) -> list[Calculation]:
    results = []
    places = calculation_places(sources)
    for n_read, place in enumerate(places):
        progress(Update("Reading calculations", n_read, len(places), message=place.id))
        if place.refusal:
            results.append(Calculation(refused_record(place.id, place.name, place.refusal)))
        else:
            results += [_calculation(_with_id(record, place)) for record in records_of(place)]
    progress(Update("Reading calculations", len(places), len(places)))
    new_ids = RepeatedIds(result.record.id for result in results).new_ids()
    return [
        replace(result, record=replace(result.record, id=new_ids[i])) if i in new_ids else result
        for i, result in enumerate(results)
    ]


def _with_id(record: StructureRecord, place: Place) -> StructureRecord:
    """Return the record with the id of its calculation."""
    if not place.is_archive:
        return replace(record, id=place.id)
    if record.id != record.file:
        return record
    # Its reader was ended, or the archive is not read on.
    member = record.file.removeprefix(f"{place.name}/")
    id = calculation_id(PurePosixPath(member).name if member == place.name else member)
    return replace(record, id=id or place.id)


def _calculation(record: StructureRecord) -> Calculation:
    """Return the calculation of a record, whose `info` has the gap if there is one."""
    if "gap_eV" not in record.info:
        return Calculation(record)
    return Calculation(
        replace(record, info={}),
        float(record.info["gap_eV"]),
        cast(GapKind, record.info["kind"]),
        str(record.info["level_of_theory"]),
    )
