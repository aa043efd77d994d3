"""Read the outputs of calculations as records.

The gap, its kind and the level of theory are in the `info` of a record.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bandgap.calculations.espresso import espresso_outcome
from bandgap.calculations.outcome import Outcome
from bandgap.calculations.packed_xml import root_element
from bandgap.calculations.search import archived_calculations
from bandgap.calculations.vasp import vasp_outcome
from bandgap.foundation.errors import printable
from bandgap.structures.checks import to_record
from bandgap.structures.contents import ZIP_MAGIC, Content
from bandgap.structures.draft import Unreadable
from bandgap.structures.reading import Part
from bandgap.structures.records import DEFAULT_LIMITS, Problem, StructureRecord, refused_record
from bandgap.structures.uploads import content_of, items_of


def calculation_items(
    data: bytes, *, path: str, name: str, n_skipped: int, keep_unconverged: bool
) -> Iterator[Any]:
    """Yield what `bandgap.structures.uploads` reads of calculations, in a child."""
    parts = calculation_parts(content_of(data, path), name, keep_unconverged=keep_unconverged)
    return items_of(parts, n_skipped)


def calculation_parts(content: Content, name: str, *, keep_unconverged: bool) -> Iterator[Part]:
    """Yield the calculations of a file or archive.

    One whose electronic loop did not converge has no gap unless `keep_unconverged`.
    """
    if content.head(4) not in ZIP_MAGIC:
        id = Path(name).name
        yield Part(name, _records(content, name, id, keep=keep_unconverged))
        return
    for file in archived_calculations(content.path or content.read_all(), name):
        records = (
            iter([refused_record(file.id, file.name, file.refusal)])
            if file.refusal
            else _records(file.content, file.name, file.id, keep=keep_unconverged)
        )
        yield Part(file.name, records)


def _records(content: Content, name: str, id: str, *, keep: bool) -> Iterator[StructureRecord]:
    """Yield the record of one calculation; one that gives no gap is refused with the reason."""
    try:
        yield _record(content, name, id, keep_unconverged=keep)
    except Unreadable as error:
        yield refused_record(id, name, str(error))
    except MemoryError:
        yield refused_record(
            id, name, "the file needs more memory than there is, or than a file of its size may"
        )


def _record(content: Content, name: str, id: str, *, keep_unconverged: bool) -> StructureRecord:
    outcome = _outcome(content)
    if outcome.unconverged and not keep_unconverged:
        raise Unreadable(
            f"{outcome.unconverged}. Converge it, or keep unconverged gaps (--keep-unconverged)"
        )
    gap = outcome.gap()
    notes = outcome.band_notes()
    record = to_record(outcome.draft, file=name, id=id, limits=DEFAULT_LIMITS)
    texts = [gap.problem, *notes, outcome.unconverged, *outcome.warnings]
    warnings = tuple(Problem("warning", printable(text)) for text in texts if text)
    info = {"gap_eV": gap.gap_eV, "kind": gap.kind, "level_of_theory": outcome.level_of_theory}
    return replace(record, problems=(*record.problems, *warnings), info=info)


def _outcome(content: Content) -> Outcome:
    """Return the outcome of a file by the program that wrote it. Raises Unreadable."""
    if root_element(content) in ("espresso", "Root"):
        return espresso_outcome(content)
    return vasp_outcome(content)
