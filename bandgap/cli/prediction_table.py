"""The table of `bandgap predict`: write it complete, or in chunks and resume it; count its rows."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bandgap.cli.inputs import print_note, print_tally
from bandgap.cli.outputs import UNFINISHED
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.progress import Progress
from bandgap.foundation.replacement import write_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bandgap.predictions.table import Predictions
    from bandgap.runs.chunks import ChunkPlan
    from bandgap.runs.requests import PredictRequest
    from bandgap.structures import StructureRecord
    from bandgap.structures.spool import Spool

_PARQUET = ".parquet"
# Endings of other formats, in which a table would have the wrong content.
_OTHER_FORMATS = re.compile(
    r"\.(xlsx?|xlsm|ods|tsv|json|jsonl|feather|arrow|h5|hdf5|db|sqlite|gz|bz2|xz|zst|zip|7z|tar|tgz)",
    re.IGNORECASE,
)
_STRUCTURE_FORMATS = re.compile(r"\.(extxyz|xyz|cif|vasp|poscar|pdb|res)", re.IGNORECASE)
_TABLE_FORMATS = re.compile(r"\.(csv|parquet|cif|vasp|poscar|pdb|res)", re.IGNORECASE)


def check_files(out: Path, extxyz: Path | None) -> None:
    """Raise InputError, before any work, where these files cannot be written.

    That is for a folder and for the ending of a format that is not written.
    """
    for path, accepted, refused in (
        (out, ".csv or .parquet", _STRUCTURE_FORMATS),
        (extxyz, ".extxyz or .xyz", _TABLE_FORMATS),
    ):
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{path} is a folder. Name a file to write.")
        if _OTHER_FORMATS.fullmatch(path.suffix) or refused.fullmatch(path.suffix):
            raise InputError(
                f"{path}: files that end in {path.suffix} are not written. Accepted: a name that"
                f" ends in {accepted}. Convert or pack it afterwards."
            )


def is_unfinished(out: Path) -> bool:
    """Return whether an earlier command has started this table and not finished it."""
    rows_as_csv = _rows_as_csv(out)
    return rows_as_csv.with_name(rows_as_csv.name + UNFINISHED).exists()


def write_table(
    predictions: Predictions,
    records: Sequence[StructureRecord],
    *,
    request: PredictRequest,
    out: Path,
    extxyz: Path | None,
) -> Counter[str]:
    """Write all predictions to a table, complete or not at all; return the counts of its rows.

    The files are those of `write_growing_table`. Raises BandgapError where one cannot be written.
    """
    from bandgap.predictions.counting import counts_of

    level = request.probability
    kind = request.interval
    if extxyz is not None:
        from bandgap.predictions.extxyz import predicted_blocks

        blocks = predicted_blocks(predictions, records, level=level, kind=kind)
        _write(extxyz, "".join(blocks))
    _write(out, predictions.to_csv(level=level, kind=kind, window=request.target))
    return counts_of(predictions)


def write_growing_table(
    records: Spool,
    plan: ChunkPlan,
    *,
    out: Path,
    extxyz: Path | None,
    baseline_eV: NDArray[np.float64] | None,
    is_tally_printed: bool,
    progress: Progress,
) -> Counter[str]:
    """Write the predictions of all records to a table; return the counts of its rows (`counts_of`).

    Writing starts, or resumes after a break, while records are still being read. A Parquet table
    grows as a CSV file next to it and is converted at the end.

    Parameters
    ----------
    records
        Structures to predict.
    plan
        Run, request and cache.
    out
        Table to write, Parquet or CSV by its name.
    extxyz
        File for the predicted structures, or None.
    baseline_eV
        Baseline of every record, (n,), in eV, if the run needs one.
    is_tally_printed
        Whether the verdicts were printed already. Otherwise they are printed once all records are
        read.
    progress
        Called after every chunk.
    """
    from bandgap.predictions.counting import counts_of
    from bandgap.predictions.extxyz import predicted_blocks
    from bandgap.predictions.growing import GrowingTable
    from bandgap.runs.chunks import predict_chunks, work_of
    from bandgap.runs.row_digest import RowDigest

    rows_as_csv = _rows_as_csv(out)
    level = plan.request.probability
    kind = plan.request.interval
    window = plan.request.target
    other_files = {} if extxyz is None else {"structures": extxyz}
    work = work_of(plan, has_baseline=baseline_eV is not None)
    made_of = RowDigest(records, baseline_eV)
    with GrowingTable(rows_as_csv, work=work, made_of=made_of, other_files=other_files) as table:
        if table.note:
            print_note(table.note)
        chunks = predict_chunks(
            records,
            plan,
            n=records.known_len,
            first=table.rows,
            baseline_eV=baseline_eV,
            progress=progress,
        )
        for chunk in chunks:
            if not is_tally_printed and records.is_read:
                print_tally(records.tally)
                is_tally_printed = True
            text = chunk.predictions.to_csv(level=level, kind=kind, window=window)
            texts = {"table": text if table.rows == 0 else text.partition("\n")[2]}
            if extxyz is not None:
                blocks = predicted_blocks(chunk.predictions, chunk.records, level=level, kind=kind)
                texts["structures"] = "".join(blocks)
            table.commit(len(chunk), counts_of(chunk.predictions), **texts)
        if not is_tally_printed:
            print_tally(records.tally)
        if rows_as_csv != out:
            from bandgap.predictions.parquet import csv_to_parquet

            csv_to_parquet(rows_as_csv, out)
    if rows_as_csv != out:
        rows_as_csv.unlink()
    return table.counts


def echo_prediction_counts(
    counts: Counter[str],
    model_folder: Path,
    manifest: Mapping[str, Any],
    *,
    out: Path,
    extxyz: Path | None,
) -> None:
    """Print the numbers of predicted and refused structures, and the warnings on them."""
    from bandgap.datasets.shipped_models import about_sentences
    from bandgap.predictions.counting import (
        LEARNED,
        UNLIKE,
        domain_counts,
    )
    from bandgap.runs.prediction import stored_calibrator

    n_refused = counts["refused"]
    n_predicted = counts["ok"] + counts["warning"]
    typer.echo(
        f"{n_predicted:,} predicted gaps and {n_refused:,} refused structures written to {out}"
    )
    if extxyz is not None:
        typer.echo(f"{n_predicted:,} structures with their predictions written to {extxyz}")
    if calibrator := stored_calibrator(model_folder):
        print_note(calibrator.sentence)
    for text in about_sentences(manifest):
        print_note(text)
    for text in manifest["warnings"]:
        print_note(f"Warning: {text}")
    if n_predicted:
        print_note(domain_counts(counts))
    if counts[UNLIKE]:
        print_note(
            f"{counts[UNLIKE]:,} structures are unlike what the model was trained on; "
            "read the column domain."
        )
    if counts[LEARNED]:
        print_note(
            f"{counts[LEARNED]:,} structures are some that the run learned from: their predictions"
            " are no test; read the column problem."
        )


def print_changed_intervals(
    model_folder: Path, manifest: Mapping[str, Any], request: PredictRequest
) -> None:
    """Print how many held-out structures of the run the changed and the other intervals cover."""
    changes = request.interval_changes
    if not changes:
        return
    from bandgap.evaluation.changed_intervals import changed_coverage_sentence
    from bandgap.evaluation.heldout import HeldOut, load_heldout, tested_ids
    from bandgap.runs.prediction import stored_calibrator

    heldout = None
    if tested_ids(manifest):
        heldout = load_heldout(model_folder, manifest)
        calibrator = stored_calibrator(model_folder) if request.calibrated else None
        if calibrator is not None:
            heldout = HeldOut(calibrator.apply(heldout.predictions), heldout.gaps_eV)
    print_note(
        changed_coverage_sentence(
            heldout, changes, level=request.probability, kind=request.interval
        )
    )


def _is_parquet(out: Path) -> bool:
    return out.suffix.lower() == _PARQUET


def _rows_as_csv(out: Path) -> Path:
    """Return the CSV file that grows: the table, or a file next to a Parquet table."""
    return out.with_name(out.name + ".csv") if _is_parquet(out) else out


def _write(path: Path, text: str) -> None:
    """Write the text of a CSV or extXYZ file, as Parquet if the path ends so.

    A link stays; the file that it points to is replaced.
    """
    file = Path(os.path.realpath(path))
    try:
        if _is_parquet(path):
            from bandgap.predictions.parquet import write_parquet

            file.parent.mkdir(parents=True, exist_ok=True)
            write_parquet(io.StringIO(text, newline=""), file)
        elif file.exists() and not file.is_file():  # a device such as /dev/stdout
            file.write_text(text, encoding="utf-8", newline="")
        else:
            write_whole(file, text)
    except OSError as error:
        raise BandgapError(
            f"{path} cannot be written: {error.strerror or error}. Free some disk space, or name "
            "another folder, and start the same command again."
        ) from error
