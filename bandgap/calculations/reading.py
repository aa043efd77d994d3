"""Find the calculations in folders and archives, and give each its structure, gap and level."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bandgap.calculations.band_edges import GapKind
from bandgap.calculations.espresso import espresso_outcome
from bandgap.calculations.outcome import Outcome
from bandgap.calculations.packed_xml import root_element
from bandgap.calculations.search import CalculationFile, NamedSource, calculation_files
from bandgap.calculations.vasp import vasp_outcome
from bandgap.foundation.errors import InputError, printable
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures.checks import to_record
from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable
from bandgap.structures.ids import RepeatedIds
from bandgap.structures.records import DEFAULT_LIMITS, Problem, StructureRecord


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
        given folder, or the name of the file. A folder with an OUTCAR alone has a result without a
        gap.

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
    for file, n_read, n_files in calculation_files(sources):
        progress(Update("Reading calculations", n_read, n_files, message=file.id))
        results.append(_read_file(file, keep_unconverged=keep_unconverged))
    progress(Update("Reading calculations", len(results), len(results)))
    new_ids = RepeatedIds(result.record.id for result in results).new_ids()
    return [
        replace(result, record=replace(result.record, id=new_ids[i])) if i in new_ids else result
        for i, result in enumerate(results)
    ]


def _read_file(file: CalculationFile, *, keep_unconverged: bool) -> Calculation:
    """Read one file. One that gives no gap has a refused record with the reason."""
    if file.content is None:
        return _refused(file, file.refusal)
    try:
        outcome = _outcome(file.content)
        if outcome.unconverged and not keep_unconverged:
            raise Unreadable(
                f"{outcome.unconverged}. Converge it, or keep unconverged gaps (--keep-unconverged)"
            )
        gap = outcome.gap()
        notes = outcome.band_notes()
        record = to_record(outcome.draft, file=file.name, id=file.id, limits=DEFAULT_LIMITS)
    except Unreadable as error:
        return _refused(file, str(error))
    except MemoryError:
        return _refused(file, "the file needs more memory than there is")
    texts = [gap.problem, *notes, outcome.unconverged, *outcome.warnings]
    warnings = tuple(Problem("warning", printable(text)) for text in texts if text)
    record = replace(record, problems=(*record.problems, *warnings))
    return Calculation(record, gap.gap_eV, gap.kind, outcome.level_of_theory)


def _outcome(content: Content) -> Outcome:
    """Return the outcome of a file by the program that wrote it. Raises Unreadable."""
    if root_element(content) in ("espresso", "Root"):
        return espresso_outcome(content)
    return vasp_outcome(content)


def _refused(file: CalculationFile, text: str) -> Calculation:
    problem = Problem("refused", printable(text))
    return Calculation(StructureRecord(file.id, file.name, "", None, (problem,)))
