"""`bandgap check` and `bandgap featurize`: verdicts on structure files, and descriptors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import (
    descriptor_cache,
    load_structures,
    print_note,
    verdict_counts,
)
from bandgap.cli.request_options import takes_engine, takes_request
from bandgap.runs.requests import SourceRequest

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord


def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Files, folders, zip archives or gzipped extXYZ files."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on each line instead of a table.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 when a structure is refused.")
    ] = False,
) -> None:
    """Check for every structure whether it can be used, and list its problems.

    Verdicts: ready; warning (usable, read the message); refused (the message says what to change).
    There is at least one line for every file. The exit code is 0 even if structures are refused,
    unless --strict is given.
    """
    from bandgap.structures import read_paths
    from bandgap.structures.same_crystals import (
        copies_sentence,
        crystal_groups,
        with_copies_named,
    )

    with progress_bars() as progress:
        records = read_paths(paths, progress=progress)
    groups = crystal_groups(records)
    records = list(with_copies_named(records, groups))
    if as_json:
        for record in records:
            typer.echo(json.dumps(_as_object(record), ensure_ascii=False))
    else:
        _print_table(records)
    print_note(verdict_counts(records))
    if sentence := copies_sentence([record.id for record in records], groups):
        print_note(sentence)
    if strict and any(record.status == "refused" for record in records):
        raise typer.Exit(1)


@takes_request(SourceRequest, only=("preset", "species", "n_jobs"))
@takes_engine
def featurize(
    structures: options.Structures,
    out: Annotated[Path, typer.Option(metavar="NPZ", help="File to write, ending in .npz.")],
    *,
    request: SourceRequest,
) -> None:
    """Compute the MBTR descriptor of every structure and write a NumPy file.

    The number of features and the memory are printed first. The file contains features (structure,
    feature) in float32, with NaN rows for refused structures, and ids, files, status and problem.
    """
    import numpy as np

    from bandgap.descriptors import config_for, feature_bytes, featurize, n_features

    config = config_for(preset=request.preset, species=request.species)
    if out.suffix != ".npz":
        raise typer.BadParameter(f"--out is {out}. Give a file name that ends in .npz.")
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        print_note(
            f"{n_features(config):,} features for each of {len(records):,} structures, "
            f"{feature_bytes(config, len(records)) / 1e6:,.1f} MB."
        )
        computed = featurize(
            records, config, cache=descriptor_cache(), n_jobs=request.n_jobs, progress=progress
        )
    problems = [
        "; ".join(filter(None, (record.problem, problem.text if problem else "")))
        for record, problem in zip(records, computed.problems, strict=True)
    ]
    refused = np.isnan(computed.features[:, 0])
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        out,
        features=computed.features,
        ids=np.array([r.id for r in records]),
        files=np.array([r.file for r in records]),
        status=np.where(refused, "refused", np.array([r.status for r in records])),
        problem=np.array(problems),
    )
    typer.echo(
        f"{out}: {int((~refused).sum()):,} of {len(records):,} structures have a descriptor."
    )
    for record, problem in zip(records, problems, strict=True):
        if problem:
            print_note(f"{record.id}: {problem}")


def _as_object(record: StructureRecord) -> dict[str, Any]:
    return {
        "file": record.file,
        "id": record.id,
        "status": record.status,
        "problems": [problem.text for problem in record.problems],
        "formula": record.formula,
        "n_atoms": record.n_atoms,
        "periodic": record.periodic,
    }


def _print_table(records: list[StructureRecord]) -> None:
    from rich.text import Text

    from bandgap.cli.report import print_table

    styles = {"ready": "green", "warning": "yellow", "refused": "red"}
    names = ("file", "structure", "verdict", "formula", "atoms", "periodic", "problem")
    rows = (
        (
            Text(record.file),
            Text(record.id),
            Text(record.status, style=styles[record.status]),
            Text(record.formula),
            Text(str(record.n_atoms)),
            Text("yes" if record.periodic else "no"),
            Text(record.problem),
        )
        for record in records
    )
    print_table(names, rows, text_columns={*names} - {"atoms"})
