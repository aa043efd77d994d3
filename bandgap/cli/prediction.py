"""`bandgap predict`, `compute-next` and `evaluate`: predict gaps, rank structures, errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    check_exist,
    check_inputs,
    descriptor_cache,
    load_baseline,
    load_gaps,
    load_structures,
    print_note,
    read_or_spool,
    takes_long_to_read,
)
from bandgap.cli.prediction_table import (
    check_files,
    echo_prediction_counts,
    is_unfinished,
    print_changed_intervals,
    write_growing_table,
    write_table,
)
from bandgap.cli.request_options import takes_engine, takes_labels, takes_request
from bandgap.cli.zipped_run import takes_zipped_run
from bandgap.foundation.errors import InputError, listed
from bandgap.runs.requests import PredictRequest

# Most structures that `predict` keeps in memory, predicts and writes in one piece: about a minute
# of work, which a kill may lose. More are spread over processes (`runs.chunks.PROCESSES_FROM`).
IN_MEMORY = 2_000
CHUNKS_IN_MEMORY = 4  # and most chunks, so that a smaller --chunk needs less memory
Model = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Run folder that `bandgap transfer` wrote, a zip of one from the page Result, or "
        "pbe: the shipped model, which needs no labels.",
    ),
]
RankBy = Literal["reduction", "sd", "distance", "chance", "improvement"]
StructuresFormat = Literal["poscar", "cif"]
Baselines = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="For a run with a baseline: table with its values for these structures, in a column "
        "of the same name; default: the key of this name in the extXYZ files.",
    ),
]


@takes_request(PredictRequest)
@takes_engine
@takes_zipped_run("model")
def predict(
    model: Model,
    structures: options.Structures,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Table to write, one row for every structure: Parquet where it ends "
            "in .parquet, else CSV.",
        ),
    ],
    baselines: Baselines = None,
    extxyz: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the structures to this extXYZ file, for ASE or OVITO: mean, standard "
            "deviation and interval in the comment lines. Refused ones are left out.",
        ),
    ] = None,
    *,
    request: PredictRequest,
) -> None:
    """Predict band gaps with intervals for new structures and write them as a CSV.

    Refused structures have a row with empty numbers and the reason. A gap is not negative: a lower
    end of 0 means that the model cannot rule out a gap of zero. With more than 2,000 structures, or
    four chunks, the table grows while they are predicted; if the command is killed, the same
    command resumes. FILE.json next to the table and next to the extXYZ file has the run, its
    settings and its warnings.
    """
    from bandgap.storage.manifests import read_manifest

    check_exist(structures)
    manifest = read_manifest(model, kind="run")
    name = _baseline_of(manifest, baselines)
    check_files(out, extxyz)
    user_features = None
    if request.features or "user_features" in manifest["descriptor"]:
        from bandgap.datasets.own_features import own_of_run, run_features

        user_features = run_features(request.features, own_of_run(manifest))
    n_in_memory = min(IN_MEMORY, CHUNKS_IN_MEMORY * request.chunk_size)
    if is_unfinished(out):
        n_in_memory = 0
    # baselines need all structures
    is_ahead = request.n_jobs > 1 or (not name and takes_long_to_read(structures))
    with progress_bars() as progress:
        records = read_or_spool(
            structures, n_in_memory=n_in_memory, is_ahead=is_ahead, progress=progress
        )
        from bandgap.foundation.machine import set_threads

        set_threads()
        baseline = None
        if name:
            baseline = load_baseline(records, name, table=baselines)
        if isinstance(records, list):
            from bandgap.runs.prediction import predict_run

            predictions = predict_run(
                model,
                records,
                request,
                baseline_eV=baseline,
                cache=descriptor_cache(),
                progress=progress,
            )
            counts = write_table(predictions, records, request=request, out=out, extxyz=extxyz)
        else:
            from bandgap.runs.chunks import ChunkPlan

            counts = write_growing_table(
                records,
                ChunkPlan(model, request, cache=descriptor_cache(), user_features=user_features),
                out=out,
                extxyz=extxyz,
                baseline_eV=baseline,
                is_tally_printed=not is_ahead,
                progress=progress,
            )
    from bandgap.predictions.table import STATUSES
    from bandgap.runs.companion import UNITS, companion, write_companion

    rows = {status: counts[status] for status in STATUSES}
    body = companion(manifest, request, columns=UNITS, rows=rows)
    for output in (out, extxyz):
        if output is not None:
            write_companion(output, body)
    echo_prediction_counts(counts, model, manifest, out=out, extxyz=extxyz)
    print_changed_intervals(model, manifest, request)


@takes_zipped_run("model")
def compute_next(
    model: Model,
    structures: options.Structures,
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write, best first.")],
    count: Annotated[int, typer.Option(min=1, help="How many structures to rank.")] = 10,
    rank_by: Annotated[
        RankBy | None,
        typer.Option(
            help="reduction (default): expected fall of the squared error of all these "
            "predictions; sd: the standard deviation of a new gap; distance: from the "
            "structures that the run learned from; chance (default with --window): probability "
            "that the gap lies in the window; improvement: expected depth of the gap in the "
            "window."
        ),
    ] = None,
    window: Annotated[
        str,
        typer.Option(metavar="FROM:TO", help="Target window of the gap in eV, such as 1.3:1.7."),
    ] = "",
    spread: Annotated[
        bool,
        typer.Option(
            help="Choose each as if those above it had been computed, or had missed the window, so "
            "that similar structures are not all chosen."
        ),
    ] = True,
    baselines: Baselines = None,
    features: options.NewFeatures = "",
    structures_out: Annotated[
        Path | None,
        typer.Option(
            "--structures-out",
            metavar="ZIP",
            help="Zip archive to write with the ranked structures, each in a folder that is named "
            "after its id, ready to be computed.",
        ),
    ] = None,
    structures_format: Annotated[
        StructuresFormat, typer.Option(help="Format of the files in the archive.")
    ] = "poscar",
) -> None:
    """Rank structures without known gaps by the benefit of computing each, and write a CSV.

    Structures with a warning on the content of their file, such as missing hydrogens, have no rank.
    They are at the end of the table, with the reason. Structures that the run learned from or was
    tested on are left out, also with other ids, orders of atoms or cells.
    """
    from bandgap.datasets.own_features import own_of_run, run_features
    from bandgap.foundation.csv_tables import csv_of_columns
    from bandgap.foundation.replacement import write_whole
    from bandgap.predictions.window import Window
    from bandgap.storage.manifests import read_manifest

    check_exist(structures)
    target = Window.parse(window) if window else None
    if rank_by is None:
        rank_by = "reduction" if target is None else "chance"
    if rank_by in ("chance", "improvement") and target is None:
        raise typer.BadParameter(f"--rank-by {rank_by} needs a window: --window 1.3:1.7.")
    manifest = read_manifest(model, kind="run")
    name = _baseline_of(manifest, baselines)
    table = run_features(features, own_of_run(manifest))
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        if table is not None:
            records = table.matched(records)
        baseline = load_baseline(records, name, table=baselines) if name else None
        # Imported after the inputs were checked, because they take long.
        from bandgap.foundation.machine import set_threads
        from bandgap.runs.prediction import predict_with_details

        set_threads()
        predictions, details = predict_with_details(
            model, records, baseline_eV=baseline, cache=descriptor_cache(), progress=progress
        )
    from bandgap.datasets.shipped_models import about_sentences
    from bandgap.predictions.next_inputs import next_zip, structures_of_records
    from bandgap.predictions.next_structures import (
        CHANCE,
        DISTANCE,
        IMPROVEMENT,
        REDUCTION,
        SD,
        Criterion,
        next_structures,
    )

    criteria: dict[RankBy, Criterion] = {
        "reduction": REDUCTION,
        "sd": SD,
        "distance": DISTANCE,
        "chance": CHANCE,
        "improvement": IMPROVEMENT,
    }
    ranked = next_structures(
        predictions,
        details,
        criterion=criteria[rank_by],
        count=count,
        spread=spread,
        window=target,
    )
    columns = ranked.columns(predictions, details)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(csv_of_columns(columns), encoding="utf-8", newline="")
    typer.echo(
        f"{len(ranked.rows):,} of {ranked.n_ranked:,} structures ranked by "
        f"{ranked.criterion}, written to {out}"
    )
    if sentence := ranked.window_sentence:
        typer.echo(sentence)
    if structures_out is not None:
        rows = [int(row) for row in ranked.rows]
        archive = next_zip(
            structures_of_records(records, rows), predictions, rows, form=structures_format
        )
        write_whole(structures_out, archive)
        typer.echo(f"{len(rows):,} structures, each in a folder, written to {structures_out}")
    for sentence in filter(None, (ranked.known_sentence, *about_sentences(manifest))):
        print_note(sentence)
    if ranked.n_not_ranked:
        print_note(
            f"{ranked.n_not_ranked:,} structures have a warning on the content of the "
            "file and no rank; read the column warning at the end of the table, correct "
            "the files and rank again."
        )


def _baseline_of(manifest: Mapping[str, Any], table: Path | None) -> str:
    """Return the baseline of a run, "" for none; raises BadParameter where a table is too much."""
    name = str(manifest["request"]["baseline"])
    if table is not None and not name:
        raise typer.BadParameter(
            "--baselines: this run was trained without a baseline. Leave the option out."
        )
    return name


@takes_labels(has_level=True)
def evaluate(
    predictions: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Table that `bandgap predict` wrote, CSV or Parquet; also a CSV that a "
            "spreadsheet saved with semicolons and decimal commas.",
        ),
    ],
    structures: options.Structures,
    labels: LabelChoice,
    json_file: options.JsonFile = None,
) -> None:
    """Compare a table of predictions with known gaps: errors, coverage and width of the intervals.

    NLL and CRPS are those of a normal distribution with the mean and standard deviation of the
    table.
    """
    from bandgap.cli.report import print_figures, write_figures
    from bandgap.datasets.gaps import mixed_levels_warning
    from bandgap.evaluation.error_context import (
        error_context,
        error_sentences,
        tiny_error_warning,
    )
    from bandgap.evaluation.metrics import evaluate_gaussian
    from bandgap.evaluation.predicted_gaps import SHOWN, rows_with_gaps
    from bandgap.predictions.counting import LEARNED_FROM
    from bandgap.predictions.reading import read_predictions
    from bandgap.runs.companion import ids_learned_from

    check_inputs(structures, labels)
    table = read_predictions(predictions)
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        gaps, level_of_theory = load_gaps(records, labels)
    if warning := mixed_levels_warning([*table.get("level_of_theory", []), level_of_theory]):
        print_note(f"Warning: {warning}")
    try:
        rows, observed, sentences = rows_with_gaps(table, records, gaps)
    except InputError as error:
        raise InputError(f"{predictions}: {error}") from error
    for sentence in sentences:
        print_note(sentence)
    if rows["level"].nunique() > 1 or rows["interval"].nunique() > 1:
        raise InputError(
            f"{predictions}: rows of different levels or kinds of interval. Evaluate one "
            "table of predict at a time."
        )
    means = rows["mean_eV"].to_numpy(dtype=float)
    figures: dict[str, float] = {"n": len(rows)} | evaluate_gaussian(
        observed,
        means,
        sd=rows["sd_eV"].to_numpy(dtype=float),
        lower=rows["lower_eV"].to_numpy(dtype=float),
        upper=rows["upper_eV"].to_numpy(dtype=float),
        level=float(rows["level"].iloc[0]),
    )
    context = error_context(observed, means, mean_gap=float(observed.mean()))
    figures |= context
    print_figures(figures)
    for sentence in error_sentences(n=len(rows), rmse_eV=figures["rmse_eV"], context=context):
        print_note(sentence)
    if warning := tiny_error_warning(figures):
        print_note(f"Warning: {warning}")
    learned_from = ids_learned_from(predictions)
    is_learned = rows["problem"].str.contains(LEARNED_FROM) | rows["id"].isin(learned_from)
    learned_rows = rows["id"][is_learned].tolist()
    if learned_rows:
        print_note(
            f"{len(learned_rows):,} of these {len(rows):,} structures are some that the run learned"
            f" from, or have their ids ({listed(learned_rows, SHOWN)}). Errors of new structures"
            " are larger: leave these out."
        )
    if rows["interval"].iloc[0] == "credible":
        print_note(
            "These are credible intervals of the mean: gaps fall outside them more "
            "often than the level says."
        )
    write_figures(json_file, figures)
