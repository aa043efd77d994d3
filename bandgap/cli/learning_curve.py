"""`bandgap learning-curve`: the error of a run's method against the number of labels."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import LabelChoice, check_inputs, descriptor_cache, load_labelled
from bandgap.cli.report import print_table
from bandgap.cli.request_options import takes_engine, takes_labels
from bandgap.cli.run_inputs import inputs_of_run
from bandgap.cli.training import check_source, source_path
from bandgap.cli.zipped_run import takes_zipped_run


@takes_zipped_run("run")
@takes_engine
@takes_labels()
def learning_curve(
    run: options.TestedRun,
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV table to write.")],
    more: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Further labels that the sentence is about. Default: about half of those of RUN.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Draws of the smaller training sets at each size.")
    ] = 3,
    sizes: Annotated[int, typer.Option(min=3, help="Evenly spaced sizes, with that of RUN.")] = 4,
    source: options.SourceOfRun = None,
    structures: options.StructuresOfRun = None,
    *,
    labels: LabelChoice,
) -> None:
    """Measure the error against the number of labels, and say what more labels would give.

    The method of RUN learns from a quarter, a half and three quarters of its labels, with the same
    settings, and is tested on the structures that RUN held out. A power law through the errors
    gives the error with more labels. RUN needs at least 40 labels and 20 held-out structures, and
    is not changed.
    """
    from bandgap.foundation.csv_tables import csv_text
    from bandgap.foundation.replacement import write_whole
    from bandgap.runs.parent_test import read_parent

    parent = read_parent(run)
    from bandgap.evaluation.learning_curve import check_numbers  # imports pandas

    n_test = len(parent.manifest["split"]["test"])
    check_numbers(int(parent.manifest["n"]), n_test, what=str(run))
    inputs = inputs_of_run(
        parent.manifest,
        run,
        source=source,
        structures=structures,
        labels=labels,
    )
    check_inputs(inputs.structures, inputs.labels)
    source_folder = source_path(inputs.source)
    check_source(source_folder)
    with progress_bars() as progress:
        data = load_labelled(
            inputs.structures,
            inputs.labels,
            baseline=parent.request.baseline,
            progress=progress,
        )
        # Imported after the inputs were checked, because they import torch.
        from bandgap.foundation.machine import set_threads
        from bandgap.runs.learning_curve import measure_learning_curve

        set_threads()
        curve = measure_learning_curve(
            run,
            source_folder,
            data,
            n_seeds=seeds,
            n_sizes=sizes,
            cache=descriptor_cache(),
            progress=progress,
        )
    sentence = curve.sentence(more)
    write_whole(out, csv_text(curve.table()))
    errors = zip(curve.sizes, curve.rmse_eV.mean(axis=0), strict=True)
    ends = zip(curve.lower_eV, curve.upper_eV, strict=True)
    rows = [
        (f"{n:,}", f"{error:.3f}", f"{lower:.3f} to {upper:.3f}")
        for (n, error), (lower, upper) in zip(errors, ends, strict=True)
    ]
    print_table(("labels", "RMSE (eV)", "95 % range"), rows)
    typer.echo(sentence)
    typer.echo(f"learning curve written to {out}")
