"""`bandgap labels`: gaps and structures from folders of finished calculations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import print_note
from bandgap.foundation.errors import InputError

if TYPE_CHECKING:
    from bandgap.calculations import Calculation


def labels(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...",
            help="Folders or zip archives of finished calculations with VASP or Quantum ESPRESSO, "
            "or single files.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="CSV", help="Table of gaps to write.")],
    extxyz: Annotated[
        Path | None,
        typer.Option(
            "--structures", metavar="EXTXYZ", help="File to write with structures and gaps."
        ),
    ] = None,
    keep_unconverged: Annotated[
        bool,
        typer.Option(
            "--keep-unconverged",
            help="Also use gaps of electronic loops that did not converge, with a warning.",
        ),
    ] = False,
) -> None:
    """Read gaps, structures and levels of theory from finished calculations.

    Every vasprun.xml of VASP and XML file of Quantum ESPRESSO under the folders is read, also
    gzipped. The gap is found by counting electrons. A crystal whose bands overlap is a metal with
    gap 0. There is one line for each file.
    """
    from bandgap.calculations import read_calculations
    from bandgap.calculations.tables import calculation_columns, counts_sentence, labelled_blocks
    from bandgap.datasets.gaps import mixed_levels_warning
    from bandgap.foundation.csv_tables import csv_of_columns
    from bandgap.foundation.replacement import write_whole
    from bandgap.structures.same_crystals import copies_sentence, crystal_groups

    with progress_bars() as progress:
        results = read_calculations(runs, keep_unconverged=keep_unconverged, progress=progress)
    for result in results:
        typer.echo(_line(result))
    print_note(counts_sentence(results))
    usable = [result for result in results if result.is_usable]
    if warning := mixed_levels_warning(result.level_of_theory for result in usable):
        print_note(warning)
    records = [result.record for result in usable]
    if sentence := copies_sentence([r.id for r in records], crystal_groups(records)):
        print_note(sentence)
    if not usable:
        raise InputError(
            f"None of {len(results):,} calculations gives a gap; the lines above say why. Nothing"
            " was written."
        )
    write_whole(out, csv_of_columns(calculation_columns(results)))
    typer.echo(f"{len(usable):,} gaps written to {out}")
    if extxyz is not None:
        write_whole(extxyz, "".join(labelled_blocks(results)))
        typer.echo(f"{len(usable):,} structures with gaps written to {extxyz}")


def _line(result: Calculation) -> str:
    """Return the result of one file on one line."""
    record = result.record
    if not result.is_usable:
        return f"{record.id}: no gap, {record.problem} ({record.file})"
    gap = "metal, 0 eV" if result.kind == "metal" else f"{result.gap_eV:.4f} eV, {result.kind}"
    notes = f"; {record.problem}" if record.problem else ""
    return f"{record.id}: {record.formula}, {gap}, {result.level_of_theory}{notes}"
