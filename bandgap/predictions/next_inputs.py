"""The structures to compute next as a zip archive of input files. Loads no torch and no ASE."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bandgap.foundation.csv_tables import csv_of_columns
from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.extxyz import usable_rows
from bandgap.predictions.table import Predictions
from bandgap.structures.draft import Draft
from bandgap.structures.formats.xyz import read_frames
from bandgap.structures.input_files import InputFormat, folder_names, input_zip
from bandgap.structures.records import DEFAULT_LIMITS

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord


def next_zip(
    structures: Sequence[Draft], predictions: Predictions, rows: Sequence[int], *, form: InputFormat
) -> bytes:
    """Return a zip archive with a folder for each structure and the list `structures.csv`.

    Parameters
    ----------
    structures
        Structures of the ranked rows, best first.
    predictions
        Predictions of all structures.
    rows
        Ranked rows of the predictions, best first.
    form
        Format of the files.
    """
    ids = [predictions.ids[row] for row in rows]
    table = csv_of_columns(
        {
            "rank": list(range(1, len(ids) + 1)),
            "id": ids,
            "folder": folder_names(ids),
            "mean_eV": [float(predictions.mean_eV[row]) for row in rows],
            "formula": [predictions.formulas[row] for row in rows],
            "file": [predictions.files[row] for row in rows],
        }
    )
    return input_zip(structures, ids, form=form, table=table)


def structures_of_records(records: "Sequence[StructureRecord]", rows: Sequence[int]) -> list[Draft]:
    """Return the structures of rows, none of which is refused."""
    structures = []
    for row in rows:
        atoms = records[row].atoms
        assert atoms is not None  # a refused structure has no rank
        along_a, along_b, along_c = (bool(value) for value in atoms.pbc)
        structures.append(
            Draft(
                symbols=list(atoms.symbols),
                positions=atoms.positions,
                cell=atoms.cell.array if atoms.cell.rank == 3 else None,
                pbc=(along_a, along_b, along_c),
            )
        )
    return structures


def stored_structures(path: Path, predictions: Predictions, rows: Sequence[int]) -> list[Draft]:
    """Return the structures of rows from the extXYZ file of a prediction.

    Raises ArtifactError if the file lacks one of them.
    """
    frame_of_row = {row: frame for frame, row in enumerate(usable_rows(predictions))}
    frames = [frame_of_row[row] for row in rows]
    drafts: dict[int, Draft] = {}
    with path.open(encoding="utf-8", newline="\n") as file:
        all_drafts = read_frames(file, limits=DEFAULT_LIMITS)
        for frame, draft in enumerate(islice(all_drafts, max(frames, default=-1) + 1)):
            if frame in frames:
                drafts[frame] = draft
    if len(drafts) < len(set(frames)) or any(draft.problems for draft in drafts.values()):
        raise ArtifactError(
            f"{path} does not contain the ranked structures: the file is damaged. Predict these"
            " structures again."
        )
    return [drafts[frame] for frame in frames]
