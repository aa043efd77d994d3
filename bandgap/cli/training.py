"""`bandgap train-source` and `bandgap transfer`: train a source model, transfer it to crystals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import EpochClock, progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    check_exist,
    check_inputs,
    descriptor_cache,
    load_labelled,
    print_note,
)
from bandgap.cli.report import print_run
from bandgap.cli.request_options import takes_engine, takes_labels, takes_request
from bandgap.cli.run_inputs import RunInputs
from bandgap.foundation.progress import Progress
from bandgap.runs.requests import SourceRequest, TransferRequest

if TYPE_CHECKING:
    from bandgap.datasets.table import LabelledSet


def source_path(source: Path) -> Path | None:
    """Return the folder of a source.

    Unless there is a folder of this name, "demo", "inorganic" and "pbe" are the shipped sources,
    and "none" is None.
    """
    from bandgap.datasets.shipped_models import find_model, folder_of_source, model_names

    if str(source) in model_names() and (note := find_model(source).note):
        print_note(note)
    return folder_of_source(source)


def check_source(folder: Path | None) -> None:
    """Raise ArtifactError unless there is no source, or the folder has the manifest of one."""
    from bandgap.storage.manifests import manifest_kind, read_manifest

    kind = None if folder is None else manifest_kind(folder)
    if folder is None or kind == "sources":
        return
    if kind != "run" or "card" not in read_manifest(folder, kind="run"):
        read_manifest(folder, kind="source")


def _list_methods(is_requested: bool) -> None:
    if not is_requested:
        return
    from bandgap.transfer import METHODS
    from bandgap.transfer.shared.method import RESEARCH_HEADING

    groups: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        line = f"  {name}: {method.title}. {method.summary} Takes {method.duration}."
        groups.setdefault(method.heading, []).append(line)
    for heading in sorted(groups, key=RESEARCH_HEADING.__eq__):
        typer.echo("\n".join([heading, *groups[heading]]))
    raise typer.Exit


@takes_request(SourceRequest)
@takes_engine
@takes_labels(has_level=True)
def train_source(
    out: options.Out,
    labels: LabelChoice,
    structures: options.Structures = [],  # noqa: B006 - typer copies it
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
    *,
    request: SourceRequest,
) -> None:
    """Train a source model on many structures with known gaps.

    `bandgap transfer --source` starts from the folder that it writes.
    """
    from bandgap.descriptors import config_for
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    if oe62 is not None and (structures or labels.is_given):
        raise typer.BadParameter(
            "--oe62 contains structures and gaps: leave out --structures and --label(s)."
        )
    if oe62 is None:
        if not structures:
            raise typer.BadParameter("give --structures PATH, or --oe62 FILE.")
        check_inputs(structures, labels)
    check_result_folder(out, kind="source")
    is_graph = request.network == "megnet"
    if is_graph:
        from bandgap.runs.source import check_network

        check_network(request)
    else:
        config_for(preset=request.preset, species=request.species)
    with progress_bars() as progress:
        if oe62 is None:
            data = load_labelled(structures, labels, progress=progress)
        else:
            data = _oe62_set(oe62, level, labels.level_of_theory, progress=progress)
        clock = EpochClock(progress, f"training the {'graph' if is_graph else 'source'} network")
        _train(data, request, out=out, progress=clock)
    print_run(out, read_manifest(out, kind="source"))
    if clock.sentence:
        typer.echo(f"graph network: {clock.sentence}" if is_graph else clock.sentence)
    print_note(
        f"Next: bandgap transfer --source {out} --structures CRYSTALS --labels CSV --out RUN"
    )


def _train(data: "LabelledSet", request: SourceRequest, *, out: Path, progress: Progress) -> None:
    # Imported after the inputs were checked, because they import torch.
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.source import train_source_run

    set_threads()
    train_source_run(data, request, out=out, cache=descriptor_cache(), progress=progress)


def _oe62_set(file: Path, level: str, level_of_theory: str, *, progress: Progress) -> "LabelledSet":
    """Return the molecules of an OE62 file with one kind of gap."""
    from bandgap.datasets.oe62 import read_oe62
    from bandgap.datasets.table import LabelledSet

    # read_oe62 checks the level
    data = read_oe62(file, level=level, progress=progress)  # type: ignore[arg-type]
    print_note(data.summary)
    return LabelledSet(data.records, data.gaps_eV, level_of_theory or data.level_of_theory)


@takes_request(TransferRequest)
@takes_engine
@takes_labels(has_level=True)
def transfer(
    source: options.Source,
    structures: options.Structures,
    out: options.Out,
    labels: LabelChoice,
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
    from bandgap.storage.result_folders import check_result_folder

    check_inputs(structures, labels)
    check_exist([Path(request.features)] if request.features else [])
    if request.method is not None:
        from bandgap.transfer import check_method_name

        check_method_name(request.method)
    source_folder = source_path(source)
    check_source(source_folder)
    check_result_folder(out, kind="run", inputs=[source_folder])
    with progress_bars() as progress:
        data = load_labelled(
            structures,
            labels,
            baseline=request.baseline,
            features=request.features,
            progress=progress,
        )
        folder = _transferred(
            source_folder,
            data,
            request,
            out=out,
            inputs=RunInputs(source, tuple(structures), labels),
            progress=progress,
        )
    _print_result(folder)


def _transferred(
    source_folder: Path | None,
    data: "LabelledSet",
    request: TransferRequest,
    *,
    out: Path,
    inputs: RunInputs,
    progress: Progress,
) -> Path:
    """Learn from the data, by the proposed method if the request names none; return the folder."""
    # Imported after the inputs were checked, because they import torch.
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.proposal import method_and_levels
    from bandgap.runs.transfer import n_to_learn, transfer_run
    from bandgap.transfer import get_method

    set_threads()
    method, levels, proposal = method_and_levels(
        request.method,
        request.levels,
        data.records,
        data.gaps_eV,
        has_source=source_folder is not None,
        level_of_theory=data.level_of_theory,
        n=request.n,
    )
    if proposal is not None:
        print_note(f"Proposed: --method {method} --levels {levels}. {proposal.sentence}")
    if note := get_method(method).note_on_size(n_to_learn(request, data)):
        print_note(note)
    return transfer_run(
        source_folder,
        data,
        request.changed(method=method, levels=levels),
        out=out,
        cache=descriptor_cache(),
        inputs=inputs.to_values(),
        progress=progress,
    )


def _print_result(folder: Path) -> None:
    """Print the figures of a run, and the commands that usually follow."""
    from bandgap.storage.manifests import read_manifest

    manifest = read_manifest(folder, kind="run")
    print_run(folder, manifest)
    start = "Next"
    if manifest["split"]["test"]:
        print_note(f"Next: bandgap refit {folder} --out {folder}-all learns from all labels,")
        start = "or"
    print_note(f"{start}: bandgap predict --model {folder} --structures NEW --out predictions.csv")
