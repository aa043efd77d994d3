"""`bandgap refit`: repeat a tested run with all of its labels."""

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    check_inputs,
    descriptor_cache,
    load_labelled,
    print_note,
)
from bandgap.cli.report import print_run
from bandgap.cli.request_options import takes_engine, takes_labels
from bandgap.cli.run_inputs import features_of_run, inputs_of_run
from bandgap.cli.training import check_source, source_path
from bandgap.cli.zipped_run import takes_zipped_run


@takes_zipped_run("run")
@takes_engine
@takes_labels()
def refit(
    run: options.TestedRun,
    out: options.Out,
    source: options.SourceOfRun = None,
    structures: options.StructuresOfRun = None,
    features: options.FeaturesOfRun = "",
    *,
    labels: LabelChoice,
) -> None:
    """Learn from all labelled structures of a run, also from those that it held out.

    Method, settings and seed are those of RUN. The error that the new run reports is that of the
    test of RUN, and conformal scores and calibrator are those of RUN. Structures, gaps and source
    are read from where `bandgap transfer` read them, relative to the current folder; options give
    another place. They must have the same content.
    """
    from bandgap.runs.parent_test import read_parent
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    parent = read_parent(run)
    inputs = inputs_of_run(
        parent.manifest,
        run,
        source=source,
        structures=structures,
        labels=labels,
    )
    features = features_of_run(parent.request.features, run, named_file=features)
    check_inputs(inputs.structures, inputs.labels)
    source_folder = source_path(inputs.source)
    check_source(source_folder)
    check_result_folder(out, kind="run", inputs=[source_folder, run])
    with progress_bars() as progress:
        data = load_labelled(
            inputs.structures,
            inputs.labels,
            baseline=parent.request.baseline,
            features=features,
            progress=progress,
        )
        # Imported after the inputs were checked, because they import torch.
        from bandgap.foundation.machine import set_threads
        from bandgap.runs.refit import refit_run

        set_threads()
        folder = refit_run(
            run,
            source_folder,
            data,
            out=out,
            cache=descriptor_cache(),
            inputs=inputs.to_values(),
            progress=progress,
        )
    print_run(folder, read_manifest(folder, kind="run"))
    print_note(f"Next: bandgap predict --model {folder} --structures NEW --out predictions.csv")
