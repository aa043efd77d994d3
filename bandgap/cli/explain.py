"""`bandgap explain`: the labels, the noise and the elements behind predictions."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    check_exist,
    descriptor_cache,
    load_baseline,
    load_labelled,
    load_structures,
    print_note,
)
from bandgap.cli.report import print_table
from bandgap.cli.request_options import takes_labels
from bandgap.cli.run_inputs import features_of_run, inputs_of_run
from bandgap.cli.zipped_run import takes_zipped_run


@takes_zipped_run("run")
@takes_labels()
def explain(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, a zip of one, or pbe.")
    ],
    new: Annotated[
        list[Path],
        typer.Option(
            "--new", help="Structures whose predictions to explain, at most 500. May be repeated."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV table to write.")],
    count: Annotated[int, typer.Option(min=1, help="Labelled structures of each prediction.")] = 5,
    baselines: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="For a run with a baseline: table with its values for the new structures.",
        ),
    ] = None,
    features: options.NewFeatures = "",
    labelled_features: options.FeaturesOfRun = "",
    structures: options.StructuresOfRun = None,
    *,
    labels: LabelChoice,
) -> None:
    """Say why a prediction is what it is: labels, noise, model and elements behind it.

    For each new structure the table has the labelled structures with the largest weight, how much
    the prediction would change without each, the standard deviations of noise and model, and the
    change when the features of one element are replaced by their mean. Labelled structures and
    gaps are read from where `bandgap transfer` read them; options give another place.
    """
    from bandgap.datasets.own_features import own_of_run, run_features
    from bandgap.storage.manifests import LABELS, read_manifest

    check_exist(new)
    manifest = read_manifest(run, kind="run")
    name = str(manifest["request"]["baseline"])
    inputs = None
    if structures or labels.is_given or not (run / LABELS).is_file():
        inputs = inputs_of_run(manifest, run, source=Path(), structures=structures, labels=labels)
    stored = str(manifest["request"].get("features", ""))
    labelled_features = features_of_run(stored, run, named_file=labelled_features)
    table = run_features(features, own_of_run(manifest))
    # Imported after the inputs were checked, because they import torch.
    from bandgap.foundation.csv_tables import csv_of_columns
    from bandgap.foundation.machine import set_threads
    from bandgap.foundation.replacement import write_whole
    from bandgap.predictions.explanations import width_sentence
    from bandgap.runs.explanation import explain_predictions

    set_threads()
    with progress_bars() as progress:
        data = None
        if inputs is not None:
            data = load_labelled(
                inputs.structures,
                inputs.labels,
                baseline=name,
                features=labelled_features,
                progress=progress,
            )
        records = load_structures(new, progress=progress)
        if table is not None:
            records = table.matched(records)
        explanations = explain_predictions(
            run,
            data,
            records,
            n_labels=count,
            baseline_eV=load_baseline(records, name, table=baselines) if name else None,
            cache=descriptor_cache(),
            progress=progress,
        )
    write_whole(out, csv_of_columns(explanations.table()))
    rows = []
    for explained in explanations.rows:
        first = explained.labels[0]
        weight = "" if first.weight is None else f"{first.weight:.2f}"
        rows.append((explained.id, f"{explained.mean_eV:.2f}", first.id, weight))
    print_table(("id", "gap (eV)", "first label", "weight"), rows)
    if len(explanations.rows) == 1:
        (explained,) = explanations.rows
        typer.echo(width_sentence(explained, typical_sd_eV=explanations.typical_sd_eV))
    if n_left_out := len(records) - len(explanations.rows):
        print_note(
            f"{n_left_out} of {len(records)} structures left out, because they cannot be "
            "predicted; `bandgap predict` gives the reason of each."
        )
    if explanations.rows and explanations.way in ("", "few draws"):
        reason = "The run has too few draws for" if explanations.way else "This method has no"
        print_note(f"{reason} weights of labels: the nearest labelled structures are listed.")
    typer.echo(f"explanations written to {out}")
