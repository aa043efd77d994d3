"""`bandgap train-source` and `bandgap transfer`: a source model, and its transfer to labelled crystals."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import EpochClock, progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    chosen_descriptor,
    descriptor_cache,
    descriptor_of,
    load_baseline,
    load_gaps,
    load_structures,
    say,
)
from bandgap.cli.report import print_run

if TYPE_CHECKING:
    from bandgap.sources.model import SourceConfig


def source_path(source: Path) -> Path | None:
    """Return the folder of a source; where none is called so, demo and inorganic are the shipped ones, none is None."""
    from bandgap.jobs.demos import DEMOS

    shipped = {demo.source: demo.folder for demo in DEMOS.values()}
    if source.exists() or str(source) not in (*shipped, "none"):
        return source
    return None if str(source) == "none" else shipped[str(source)]()


def _list_methods(asked: bool) -> None:
    if not asked:
        return
    from bandgap.transfer import METHODS

    for family in dict.fromkeys(method.family for method in METHODS.values()):
        typer.echo(f"{family[:1].upper()}{family[1:]}")
        for name, method in METHODS.items():
            if method.family == family:
                typer.echo(f"  {name}: {method.title}. {method.summary} Cost: {method.cost}")
    raise typer.Exit


def train_source(
    out: options.Out,
    structures: options.Structures = [],  # noqa: B006 - typer copies it
    label: options.Label = None,
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    oe62: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An OE62 file such as df_62k.json, instead of --structures.")
    ] = None,
    level: Annotated[
        str, typer.Option(help="Which gaps of the OE62 file: pbe, pbe0, pbe0_water, gw or another that it has.")
    ] = "pbe0",
    preset: options.Preset = None,
    species: options.Species = None,
    network: Annotated[
        Literal["perceptron", "megnet"],
        typer.Option(
            help="perceptron: learns from the descriptor of --preset or --species; megnet: learns its own features "
            "from the structures, by a graph network (needs the extra graph)."
        ),
    ] = "perceptron",
    split: Annotated[
        str | None,
        typer.Option(
            metavar="TRAIN,STOP",
            help="Numbers of structures to train on and to stop by; the error on the rest is told. 40000,10000 is the "
            "split of OE62 that the method was published with. Default: four fifths and one fifth, no rest.",
        ),
    ] = None,
    max_epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs at most; default: 150, fewer where nothing is gained any more.")
    ] = None,
    seed: options.Seed = 0,
    level_of_theory: options.LevelOfTheory = "",
    licence: Annotated[
        str, typer.Option(help="Licence of the data, such as CC-BY-4.0. It travels with the source model and its runs.")
    ] = "",
    variational: options.Variational = False,
    snapshots: options.Snapshots = None,
    device: options.Device = "auto",
    jobs: options.Jobs = 1,
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
) -> None:
    """Train a source model on many structures with known gaps.

    The folder that it writes is what `bandgap transfer --source` starts from.
    """
    from bandgap.foundation.engines import use_engine
    from bandgap.foundation.machine import set_threads
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    use_engine(engine, scheduler)
    check_result_folder(out, kind="source")
    asked = _source_config(split, max_epochs, variational=variational, snapshots=snapshots)
    train = _trainer(network, preset, species, config=asked)
    with progress_bars() as progress:
        if oe62 is not None:
            if structures or label or labels:
                raise typer.BadParameter("--oe62 brings structures and gaps: leave out --structures and --label(s).")
            from bandgap.datasets.oe62 import read_oe62

            data = read_oe62(oe62, level=level, progress=progress)  # type: ignore[arg-type]  # it checks the level
            say(data.summary)
            records, gaps = data.records, data.gaps_eV
            level_of_theory = level_of_theory or data.level_of_theory
            del data
        else:
            if not structures:
                raise typer.BadParameter("give --structures PATH, or --oe62 FILE.")
            choice = LabelChoice(label, labels, unit=unit, column=column, level_of_theory=level_of_theory)
            records = load_structures(structures, progress=progress)
            gaps, level_of_theory = load_gaps(records, choice)
        clock = EpochClock(progress, f"training the {'graph' if network == 'megnet' else 'source'} network")
        folder = train(
            records,
            gaps,
            level_of_theory=level_of_theory,
            licence=licence,
            out=out,
            seed=seed,
            device=device,
            cache=descriptor_cache(),
            n_jobs=jobs,
            progress=clock,
        )
    print_run(folder, read_manifest(folder, kind="source"))
    if clock.sentence:
        typer.echo(f"graph network: {clock.sentence}" if network == "megnet" else clock.sentence)
    say(f"Next: bandgap transfer --source {folder} --structures CRYSTALS --labels CSV --out RUN")


def _source_config(
    split: str | None, max_epochs: int | None, *, variational: bool, snapshots: int | None
) -> "SourceConfig":
    from bandgap.networks.training import TrainingConfig
    from bandgap.sources.model import SourceConfig

    return SourceConfig(
        training=TrainingConfig() if max_epochs is None else TrainingConfig(max_epochs=max_epochs),
        variational=options.variational_configs(variational),
        snapshots=options.snapshot_config(snapshots),
        split=None if split is None else options.parse_split(split),
    )


def _trainer(network: str, preset: str | None, species: str | None, *, config: "SourceConfig") -> Callable[..., Path]:
    """Return the training of this network with its descriptor; refuses what does not go together."""
    if network == "perceptron":
        from bandgap.sources.training import train_source_run

        return functools.partial(train_source_run, descriptor=descriptor_of(preset, species), config=config)
    if preset is not None or species is not None:
        raise typer.BadParameter("--network megnet learns its own features: leave out --preset and --species.")
    if config.split is not None:
        raise typer.BadParameter("--split is for --network perceptron: a graph network would see all structures.")
    import bandgap.networks.megnet  # noqa: F401 - before structures are read, it says where its package is missing
    from bandgap.sources.graph_training import HIDDEN, train_graph_source_run

    return functools.partial(train_graph_source_run, config=replace(config, hidden=HIDDEN))


def transfer(
    source: options.Source,
    structures: options.Structures,
    out: options.Out,
    label: options.Label = None,
    labels: options.Labels = None,
    unit: options.LabelUnit = None,
    column: options.GapColumn = None,
    baseline_column: options.BaselineColumn = None,
    preset: options.OwnPreset = None,
    species: options.OwnSpecies = None,
    method: Annotated[str | None, typer.Option(help="See --list-methods. Default: as the page Train proposes.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Labelled structures to learn from; default: all but the test set.")
    ] = None,
    n_test: Annotated[int | None, typer.Option(min=0, help="Labelled structures to hold back for testing.")] = None,
    conformal_share: options.ConformalShare = 0.0,
    by_formula: Annotated[
        bool, typer.Option("--by-formula", help="Keep all structures of one formula on one side of the split.")
    ] = False,
    test_known: Annotated[
        bool,
        typer.Option(
            "--test-known",
            help="Hold back structures of the source's elements alone, to compare with a method that takes no others.",
        ),
    ] = False,
    seed: options.Seed = 0,
    level_of_theory: options.LevelOfTheory = "",
    levels: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="Learn from each structure's own frontier levels too: GFN1-xTB (needs the extra xtb), "
            "GFN1-xTB-supercell (at more k points where a cell is small, as of inorganic crystals) or none. "
            "Gaussian processes, kernel ridge and trees take all three, other methods the gap as a baseline.",
        ),
    ] = "none",
    device: options.Device = "auto",
    jobs: options.Jobs = 1,
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method. May be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of a source of several sets: the set to start from; default: by measurement."
        ),
    ] = None,
    checkpoint_every: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Iterations of a network's sampler between two checkpoints; 0: none."),
    ] = 100,
    list_methods: Annotated[
        bool, typer.Option("--list-methods", is_eager=True, callback=_list_methods, help="Name the methods and end.")
    ] = False,
) -> None:
    """Transfer a source network to labelled crystals and write a run folder.

    Rows are sorted by id and permuted by the seed: the first ones are the test set, the next N the training set. Killed
    while it samples a network, the same command goes on from its last checkpoint to the same result.
    """
    from bandgap.foundation.engines import use_engine
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.transfer import transfer_run
    from bandgap.storage.manifests import read_manifest
    from bandgap.storage.result_folders import check_result_folder

    set_threads()
    use_engine(engine, scheduler)
    check_result_folder(out, kind="run", inputs=[source_path(source)])
    choice = LabelChoice(label, labels, unit=unit, column=column, level_of_theory=level_of_theory)
    chosen = parse_settings(settings)
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        gaps, level_of_theory = load_gaps(records, choice)
        baseline = None if baseline_column is None else load_baseline(records, baseline_column, table=labels)
        folder = transfer_run(
            source_path(source),
            records,
            gaps,
            method=method,
            n=n,
            n_test=n_test,
            seed=seed,
            head=head,
            descriptor=chosen_descriptor(preset, species),
            checkpoint_every=checkpoint_every,
            conformal_share=conformal_share,
            by_formula=by_formula,
            test_known=test_known,
            out=out,
            level_of_theory=level_of_theory,
            baseline_eV=baseline,
            baseline=baseline_column or "",
            levels=levels,  # type: ignore[arg-type]  # it checks the word
            settings=chosen,
            device=device,
            cache=descriptor_cache(),
            n_jobs=jobs,
            progress=progress,
        )
    print_run(folder, read_manifest(folder, kind="run"))
    say(f"Next: bandgap predict --model {folder} --structures NEW --out predictions.csv")


def parse_settings(texts: list[str]) -> dict[str, Any]:
    """Turn NAME=VALUE words into settings; a value is JSON where it can be (3, 0.5, true, [1, 2]), else text.

    >>> parse_settings(["lam=0.5", "standardise=target"])
    {'lam': 0.5, 'standardise': 'target'}
    """
    import json

    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"--set {text!r}. Write NAME=VALUE, such as --set lam=1.")
        try:
            settings[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            settings[name.strip()] = value
    return settings
