"""Find the calculations in folders and archives, and give each its structure, gap and level."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import cast

import numpy as np

from bandgap.calculations.band_edges import GapKind
from bandgap.calculations.records import all_parts, converged_parts, refused_record
from bandgap.calculations.search import (
    NamedSource,
    Place,
    calculation_id,
    calculation_places,
)
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures.ids import RepeatedIds
from bandgap.structures.isolation import read_isolated
from bandgap.structures.records import STREAM_LIMITS, StructureRecord

_REMEDY = (
    "Give the output of a calculation at one structure (NSW = 0, or calculation = 'scf'), or copy"
    " the file again from where it was made"
)


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
        FHI-aims or CRYSTAL, has a result without a gap. Every file is read in a separate process
        with limits of time and memory (see `bandgap.structures.isolation`).

    Raises
    ------
    InputError
        If a path does not exist, or if there is no such file in all paths.
    """
    sources: list[NamedSource] = []
    for path in map(Path, paths):
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")
        sources.append((str(path), path))
    results = read_sources(sources, keep_unconverged=keep_unconverged, progress=progress)
    if not results:
        raise InputError(
            "There is no file vasprun.xml or vasprun.xml.gz, and no XML file of Quantum ESPRESSO,"
            " under the given paths. Give the folders of finished calculations."
        )
    return results


def read_sources(
    sources: Sequence[NamedSource],
    *,
    keep_unconverged: bool = False,
    progress: Progress = no_progress,
) -> list[Calculation]:
    """Read calculations of paths, or of the bytes of uploaded files.

    Parameters
    ----------
    sources
        Name of each source to show, and its path or bytes.
    keep_unconverged, progress
        As in `read_calculations`.

    Returns
    -------
    list of Calculation
        As `read_calculations`; empty if there is no calculation.
    """
    results = []
    places = calculation_places(sources)
    for n_read, place in enumerate(places):
        progress(Update("Reading calculations", n_read, len(places), message=place.id))
        results += [_calculation(record) for record in _records(place, keep=keep_unconverged)]
    progress(Update("Reading calculations", len(places), len(places)))
    new_ids = RepeatedIds(result.record.id for result in results).new_ids()
    return [
        replace(result, record=replace(result.record, id=new_ids[i])) if i in new_ids else result
        for i, result in enumerate(results)
    ]


def _records(place: Place, *, keep: bool) -> Iterator[StructureRecord]:
    """Yield the records of a file or archive, which is read in a separate process."""
    if place.refusal:
        yield refused_record(place.id, place.name, place.refusal)
        return
    records = read_isolated(
        place.source,
        place.name,
        limits=STREAM_LIMITS,
        max_records=STREAM_LIMITS.max_structures,
        parts_of=all_parts if keep else converged_parts,
        remedy=_REMEDY,
    )
    for record in records:
        if not place.is_archive:
            yield replace(record, id=place.id)
        elif record.id == record.file:  # its reader was ended, or the archive is not read on
            member = record.file.removeprefix(f"{place.name}/")
            id = calculation_id(PurePosixPath(member).name if member == place.name else member)
            yield replace(record, id=id or place.id)
        else:
            yield record


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
