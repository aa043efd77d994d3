"""The table of `bandgap predict` as it grows: rows chunk by chunk, where it goes on after a break, and its counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bandgap.cli.inputs import say, say_tally
from bandgap.foundation.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bandgap.runs.chunks import ChunkPlan
    from bandgap.structures.spool import Spool


def write_growing(
    records: Spool,
    plan: ChunkPlan,
    *,
    out: Path,
    extxyz: Path | None,
    baseline_eV: NDArray[np.float64] | None,
    told: bool,
    progress: Progress,
) -> Counter[str]:
    """Write the predictions of all records to `out`, and the structures to `extxyz`; return counts of what is in them.

    Begins, or goes on after a break, while records are still being read; their verdicts are said once all are, if they
    are not `told` yet.
    A table whose name ends in .parquet grows as CSV beside it, and is made of that at the end.
    The counts are those of the columns status and domain of all rows (`counts_of`).
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

    structures = {} if extxyz is None else {"structures": extxyz}
    work, made_of = work_of(plan, has_baseline=baseline_eV is not None), RowDigest(records, baseline_eV)
    with GrowingTable(rows_as_csv, work=work, made_of=made_of, other_files=structures) as table:
        if table.note:
            say(table.note)
        chunks = predict_chunks(
            records, plan, n=records.known_len, first=table.rows, baseline_eV=baseline_eV, progress=progress
        )
        for chunk in chunks:
            if not told and records.is_read:
                say_tally(records.tally)
                told = True
            text = chunk.predictions.to_csv(level=plan.request.probability, kind=plan.request.interval)
            texts = {"table": text if table.rows == 0 else text.partition("\n")[2]}
            if extxyz is not None:
                blocks = predicted_blocks(
                    chunk.predictions, chunk.records, level=plan.request.probability, kind=plan.request.interval
                )
                texts["structures"] = "".join(blocks)
            table.commit(len(chunk), counts_of(chunk.predictions), **texts)
        if not told:
            say_tally(records.tally)
        if rows_as_csv != out:
            csv_to_parquet(rows_as_csv, out)
    if rows_as_csv != out:
        rows_as_csv.unlink()
    return table.counts


def say_predicted(counts: Counter[str], plan: ChunkPlan, *, out: Path, extxyz: Path | None) -> None:
    """Say how many rows were written and refused, and what to mind about them."""
    from bandgap.evaluation.calibrators import load_calibrator
    from bandgap.predictions.counting import UNLIKE, domain_counts
    from bandgap.storage.manifests import read_manifest

    refused, predicted = counts["refused"], counts["ok"] + counts["warning"]
    typer.echo(f"{predicted:,} predicted gaps and {refused:,} refused structures written to {out}")
    if extxyz is not None:
        typer.echo(f"{predicted:,} structures with their predictions written to {extxyz}")
    if calibrator := load_calibrator(plan.model_folder):
        say(calibrator.sentence)
    for text in read_manifest(plan.model_folder, kind="run")["warnings"]:
        say(f"Warning: {text}")
    if predicted:
        say(domain_counts(counts))
    if counts[UNLIKE]:
        say(f"{counts[UNLIKE]:,} structures are unlike what the model was trained on; read the column domain.")
