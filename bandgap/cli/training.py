"""`bandgap train-source` and `bandgap transfer`: train a source model, transfer it to crystals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import EpochClock, progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    descriptor_cache,
    descriptor_of,
    load_labelled,
    print_note,
)
from bandgap.cli.report import print_run
from bandgap.cli.request_options import takes_request
from bandgap.cli.run_inputs import RunInputs
from bandgap.foundation.progress import Progress
from bandgap.runs.requests import SourceRequest, TransferRequest

if TYPE_CHECKING:
    from bandgap.datasets.table import LabelledSet


def source_path(source: Path) -> Path | None:
    """Return the folder of a source.

    Unless there is a folder of this name, "demo" and "inorganic" are the shipped sources, and
    "none" is None.
    """
    from bandgap.datasets.demo import folder_of_source

    return folder_of_source(source)


def _list_methods(is_requested: bool) -> None:
    if not is_requested:
        return
    from bandgap.transfer import METHODS

    for family in dict.fromkeys(method.family for method in METHODS.values()):
        typer.echo(f"{family[:1].upper()}{family[1:]}")
        for name, method in METHODS.items():
            if method.family == family:
                typer.echo(f"  {name}: {method.title}. {method.summary} Takes {method.duration}.")
    raise typer.Exit


@takes_request(SourceRequest)
def train_source(
    out: options.Out,
    structures: options.Structures = [],  # noqa: B006 - typer copies it
    label: options.Label = None,
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    id_column: options.IdColumn = None,
    oe62: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="An OE62 file such as df_62k.json, instead of --structures."
        ),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            help="Gaps of the OE62 file to use: pbe, pbe0, pbe0_water, gw or another level in it."
        ),
    ] = "pbe0",
    level_of_theory: options.LevelOfTheory = "",
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
    *,
    request: SourceRequest,
) -> None:
    """Train a source model on many structures with known gaps.

    `bandgap transfer --source` starts from the folder that it writes.
    """
    from bandgap.foundation.engines import use_engine
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.source import check_network, train_source_run
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    use_engine(engine, scheduler)
    check_result_folder(out, kind="source")
    is_graph = request.network == "megnet"
    check_network(request)
    if not is_graph:
        descriptor_of(request.preset, request.species)
    with progress_bars() as progress:
        if oe62 is not None:
            if structures or label or labels:
                raise typer.BadParameter(
                    "--oe62 contains structures and gaps: leave out --structures and --label(s)."
                )
            data = _oe62_set(oe62, level, level_of_theory, progress=progress)
        else:
            if not structures:
                raise typer.BadParameter("give --structures PATH, or --oe62 FILE.")
            choice = LabelChoice(
                label,
                labels,
                unit=unit,
                column=column,
                level_of_theory=level_of_theory,
                id_column=id_column,
            )
            data = load_labelled(structures, choice, progress=progress)
        clock = EpochClock(progress, f"training the {'graph' if is_graph else 'source'} network")
        folder = train_source_run(data, request, out=out, cache=descriptor_cache(), progress=clock)
    print_run(folder, read_manifest(folder, kind="source"))
    if clock.sentence:
        typer.echo(f"graph network: {clock.sentence}" if is_graph else clock.sentence)
    print_note(
        f"Next: bandgap transfer --source {folder} --structures CRYSTALS --labels CSV --out RUN"
    )


def _oe62_set(file: Path, level: str, level_of_theory: str, *, progress: Progress) -> "LabelledSet":
    """Return the molecules of an OE62 file with one kind of gap."""
    from bandgap.datasets.oe62 import read_oe62
    from bandgap.datasets.table import LabelledSet

    # read_oe62 checks the level
    data = read_oe62(file, level=level, progress=progress)  # type: ignore[arg-type]
    print_note(data.summary)
    return LabelledSet(data.records, data.gaps_eV, level_of_theory or data.level_of_theory)


@takes_request(TransferRequest)
def transfer(
    source: options.Source,
    structures: options.Structures,
    out: options.Out,
    label: options.Label = None,
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    id_column: options.IdColumn = None,
    level_of_theory: options.LevelOfTheory = "",
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
    list_methods: Annotated[
        bool,
        typer.Option(
            "--list-methods",
            is_eager=True,
            callback=_list_methods,
            help="List the methods and exit.",
        ),
    ] = False,
    *,
    request: TransferRequest,
) -> None:
    """Transfer a source model to labelled crystals and write a run folder.

    Rows are sorted by identifier and permuted by the seed: the first ones are the test set, the
    next N the training set. If the command is killed while it samples a network, the same command
    resumes from the last checkpoint, with the same result.
    """
    from bandgap.foundation.engines import use_engine
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.proposal import method_and_levels
    from bandgap.runs.transfer import transfer_run
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    use_engine(engine, scheduler)
    check_result_folder(out, kind="run", inputs=[source_path(source)])
    choice = LabelChoice(
        label,
        labels,
        unit=unit,
        column=column,
        level_of_theory=level_of_theory,
        id_column=id_column,
    )
    with progress_bars() as progress:
        data = load_labelled(structures, choice, baseline=request.baseline, progress=progress)
        folder_of_source = source_path(source)
        method, levels, proposal = method_and_levels(
            request.method,
            request.levels,
            data.records,
            data.gaps_eV,
            has_source=folder_of_source is not None,
            level_of_theory=data.level_of_theory,
            n=request.n,
        )
        if proposal is not None:
            print_note(f"Proposed: --method {method} --levels {levels}. {proposal.sentence}")
        folder = transfer_run(
            folder_of_source,
            data,
            request.changed(method=method, levels=levels),
            out=out,
            cache=descriptor_cache(),
            inputs=RunInputs(source, tuple(structures), choice).to_values(),
            progress=progress,
        )
    manifest = read_manifest(folder, kind="run")
    print_run(folder, manifest)
    start = "Next"
    if manifest["split"]["test"]:
        print_note(f"Next: bandgap refit {folder} --out {folder}-all learns from all labels,")
        start = "or"
    print_note(f"{start}: bandgap predict --model {folder} --structures NEW --out predictions.csv")
