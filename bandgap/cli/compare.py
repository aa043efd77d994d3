"""`bandgap compare`: compare methods on a labelled set, at several sizes of the training set."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import (
    LabelChoice,
    check_exist,
    check_inputs,
    descriptor_cache,
    load_features,
    load_gaps,
    load_structures,
    print_note,
)
from bandgap.cli.report import print_table
from bandgap.cli.request_options import parse_settings, takes_engine, takes_labels, takes_request
from bandgap.cli.training import check_source, source_path
from bandgap.runs.requests import TransferRequest

if TYPE_CHECKING:
    from bandgap.runs.compared_fits import ComparedFit

RESULTS = "fits.jsonl"
COLUMNS = {
    "rmse_eV": "RMSE (eV)",
    "crps_eV": "CRPS (eV)",
    "coverage_95": "coverage of the 95 % interval",
    "width_95_eV": "its mean width (eV)",
    "coverage_conformal_95": "coverage of the conformal 95 % interval",
    "width_conformal_95_eV": "its mean width (eV)",
}


@takes_request(
    TransferRequest,
    only=(
        "conformal_share",
        "by_formula",
        "preset",
        "species",
        "features",
        "head",
        "device",
        "n_jobs",
    ),
)
@takes_engine
@takes_labels()
def compare(
    source: options.Source,
    structures: options.Structures,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder of the results; an interrupted comparison resumes."
        ),
    ],
    labels: LabelChoice,
    methods: Annotated[
        list[str],
        typer.Option(
            "--method",
            help="A method to compare, also NAME+levels, NAME+molecules or NAME+hueckel; may be "
            "repeated. Default: the quick ones.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    sizes: Annotated[
        list[int],
        typer.Option("--n", min=1, help="Labelled structures to learn from; may be repeated."),
    ] = [100, 250],  # noqa: B006
    n_test: Annotated[
        int, typer.Option(min=2, help="Labelled structures held back for testing.")
    ] = 300,
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits: seeds 0, 1, ...")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of these seeds.")] = 0,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="METHOD.NAME=VALUE", help="A setting of one method. May be repeated."
        ),
    ] = [],  # noqa: B006 - typer copies it
    *,
    request: TransferRequest,
) -> None:
    """Compare methods on a labelled set: error, score, coverage and width of the intervals.

    The figures are means over splits.

    All methods get the same source and seeds, and are tested on the same rows. An interrupted
    comparison resumes with the missing fits, and tries failed ones again. Earlier fits with other
    data, another source, other settings or another version are recomputed.
    """
    from dataclasses import replace

    from bandgap.storage.result_folders import check_table_folder
    from bandgap.transfer import check_method_name

    check_inputs(structures, labels)
    check_exist([Path(request.features)] if request.features else [])
    check_table_folder(out, RESULTS)
    folder = source_path(source)
    check_source(folder)
    for name in methods or ():
        check_method_name(name)

    # Imported after the inputs were checked, because they import torch.
    from bandgap.descriptors.electron_levels import refuse_tight_binding_gaps
    from bandgap.evaluation.near_copies import compared_copies_sentence
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.compared_fits import (
        append_fit,
        fit_key,
        read_fits,
        recomputed_sentence,
        reusable_fits,
    )
    from bandgap.runs.compared_tables import tables_for
    from bandgap.runs.comparison import (
        Comparison,
        entrant_of,
        facts_by_method,
        levels_of,
    )
    from bandgap.runs.comparison import compare as compare_methods
    from bandgap.sources.no_source import named_descriptor

    set_threads()
    names = methods or quick_methods(transfers=folder is not None)
    settings_by_method = {name: settings_of(name, settings) for name in names}
    all_seeds = tuple(range(first_seed, first_seed + seeds))
    share = request.conformal_share
    comparison = Comparison(
        settings_by_method, tuple(sizes), all_seeds, n_test, share, request.by_formula
    )
    levels = levels_of(settings_by_method)
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        gaps, level_of_theory = load_gaps(records, labels)
        records = load_features(records, request.features)
        descriptor = named_descriptor(request.preset, request.species, records, gaps)
        refuse_tight_binding_gaps(levels, level_of_theory)
        compared = tables_for(
            [entrant_of(name).method for name in settings_by_method],
            folder,
            records,
            gaps,
            head=request.head,
            descriptor=descriptor,
            levels=levels,
            min_structures=0 if methods else max(sizes) + n_test,
            cache=descriptor_cache(),
            n_jobs=request.n_jobs,
            progress=progress,
        )
        if compared.unable:
            able = {
                name: values
                for name, values in settings_by_method.items()
                if name not in compared.unable
            }
            comparison = replace(comparison, methods=able)
            unable_text = ", ".join(compared.unable)
            print_note(
                "Not compared, as the source model lacks elements of too many "
                f"structures: {unable_text}."
            )
        for text in compared.left_out(len(records)):
            print_note(text)
        out.mkdir(parents=True, exist_ok=True)
        stored_fits = read_fits(out / RESULTS)
        facts = facts_by_method(compared, comparison, head=request.head)
        if sentence := recomputed_sentence(stored_fits, facts, where=out / RESULTS):
            print_note(sentence)
        fits = reusable_fits(stored_fits, facts)
        for fit in compare_methods(
            compared,
            comparison,
            head=request.head,
            device=request.device,
            done=fits,
            progress=progress,
        ):
            append_fit(out / RESULTS, fit)
            fits.append(fit)
    key_end = (share, compared.tested_on)
    requested = {(n, seed, *key_end) for n in comparison.sizes for seed in comparison.seeds}
    requested_fits = [fit for fit in fits if fit_key(fit)[1:] in requested]
    print_comparison(requested_fits)
    if sentence := compared_copies_sentence(fit.figures for fit in requested_fits):
        typer.echo(f"Warning: {sentence}", err=True)
    typer.echo(compared.sentence)
    typer.echo(f"{out / RESULTS}: one line for every fit.")


def quick_methods(*, transfers: bool = True) -> list[str]:
    """Return the methods that take seconds; without a source, those that do not transfer."""
    from bandgap.transfer import METHODS

    quick = [
        name
        for name, method in METHODS.items()
        if method.duration.startswith(("seconds", "a second"))
    ]
    return [name for name in quick if transfers or not METHODS[name].transfers]


def settings_of(method: str, texts: Sequence[str]) -> dict[str, object]:
    """Return the settings of one method from texts METHOD.NAME=VALUE.

    >>> settings_of("fine_tune", ["fine_tune.standardise=source", "nptl.samples=30"])
    {'standardise': 'source'}
    """
    prefix = f"{method}."
    return parse_settings([text.removeprefix(prefix) for text in texts if text.startswith(prefix)])


def print_comparison(fits: "Sequence[ComparedFit]") -> None:
    """Print a table for every figure: mean and standard error by method (row) and size (column)."""
    from bandgap.runs.compared_fits import summary

    sizes = sorted({fit.n for fit in fits})
    seeds = len({fit.seed for fit in fits})
    for figure, title in COLUMNS.items():
        rows = []
        for name, row in summary(fits, figure).items():
            cells = [
                f"{row[n][0]:.3f}" + ("" if seeds < 2 else f" +- {row[n][1]:.3f}") for n in sizes
            ]
            if any(cell[0].isdigit() for cell in cells):
                rows.append((name, *cells))
        if rows:
            typer.echo(
                f"\n{title}, mean over {seeds} splits" + (" +- standard error" if seeds > 1 else "")
            )
            print_table(("", *(f"n = {n}" for n in sizes)), rows)
    for fit in fits:
        if fit.failed:
            typer.echo(
                f"Not fitted: {fit.method}, n = {fit.n}, seed {fit.seed}: {fit.failed}", err=True
            )
    for warning in dict.fromkeys(
        f"{fit.method}, n = {fit.n}: {text}" for fit in fits for text in fit.warnings
    ):
        typer.echo(f"Warning: {warning}", err=True)
