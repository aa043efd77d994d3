"""The growing table of `bandgap predict`: write it in chunks, resume it, and count its rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bandgap.cli.inputs import print_note, print_tally
from bandgap.foundation.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bandgap.runs.chunks import ChunkPlan
    from bandgap.structures.spool import Spool


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
    from bandgap.predictions.parquet import check_parquet, csv_to_parquet, is_parquet
    from bandgap.runs.chunks import predict_chunks, work_of
    from bandgap.runs.row_digest import RowDigest

    rows_as_csv = out
    if is_parquet(out):
        check_parquet()
        rows_as_csv = out.with_name(out.name + ".csv")

    level = plan.request.probability
    kind = plan.request.interval
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
            text = chunk.predictions.to_csv(level=level, kind=kind)
            texts = {"table": text if table.rows == 0 else text.partition("\n")[2]}
            if extxyz is not None:
                blocks = predicted_blocks(chunk.predictions, chunk.records, level=level, kind=kind)
                texts["structures"] = "".join(blocks)
            table.commit(len(chunk), counts_of(chunk.predictions), **texts)
        if not is_tally_printed:
            print_tally(records.tally)
        if rows_as_csv != out:
            csv_to_parquet(rows_as_csv, out)
    if rows_as_csv != out:
        rows_as_csv.unlink()
    return table.counts


def echo_prediction_counts(
    counts: Counter[str], plan: ChunkPlan, *, out: Path, extxyz: Path | None
) -> None:
    """Print the numbers of predicted and refused structures, and the warnings on them."""
    from bandgap.evaluation.calibrators import load_calibrator
    from bandgap.predictions.counting import UNLIKE, domain_counts
    from bandgap.storage.manifests import read_manifest

    n_refused = counts["refused"]
    n_predicted = counts["ok"] + counts["warning"]
    typer.echo(
        f"{n_predicted:,} predicted gaps and {n_refused:,} refused structures written to {out}"
    )
    if extxyz is not None:
        typer.echo(f"{n_predicted:,} structures with their predictions written to {extxyz}")
    if calibrator := load_calibrator(plan.model_folder):
        print_note(calibrator.sentence)
    for text in read_manifest(plan.model_folder, kind="run")["warnings"]:
        print_note(f"Warning: {text}")
    if n_predicted:
        print_note(domain_counts(counts))
    if counts[UNLIKE]:
        print_note(
            f"{counts[UNLIKE]:,} structures are unlike what the model was trained on; "
            "read the column domain."
        )
