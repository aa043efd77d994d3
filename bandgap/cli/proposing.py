"""`bandgap propose`: molecules whose predicted gap lies in a window. Experimental."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import check_exist, descriptor_cache, load_structures, print_note
from bandgap.cli.zipped_run import takes_zipped_run


@takes_zipped_run("model")
def propose(
    model: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Run folder that `bandgap transfer` wrote, or a zip of one from the page Result.",
        ),
    ],
    structures: Annotated[
        list[Path],
        typer.Option(
            help="Molecules to learn from, such as those of the source, with all hydrogens: a "
            "file, a folder or an archive. May be repeated."
        ),
    ],
    window: Annotated[
        str,
        typer.Option(metavar="FROM:TO", help="Target window of the gap in eV, such as 1.3:1.7."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write, best first.")],
    extxyz: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the molecules to this extXYZ file, with SMILES and predictions in the "
            "comment lines.",
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many new molecules to list.")] = 20,
    generated: Annotated[
        int,
        typer.Option(min=1, help="How many molecules to generate, of which the best are listed."),
    ] = 1_000,
    compared: Annotated[
        int,
        typer.Option(
            min=0,
            help="Known molecules whose geometry is made again from SMILES, to measure the error "
            "of the geometries.",
        ),
    ] = 50,
    seed: options.Seed = 0,
) -> None:
    """Propose molecules whose gap probably lies in a window, and write them as a CSV.

    Experimental. Known molecules are changed at random, embedded in 3D by RDKit, predicted with
    the run, and ranked by the probability that the gap lies in the window; molecules unlike those
    that the run learned from, by their p-value or with a warning, are at the end. Known molecules
    are marked. The gaps are those of isolated molecules: the crystal packing is unknown. FILE.json
    next to the table has settings and counts.
    """
    from bandgap.foundation.csv_tables import csv_of_columns
    from bandgap.foundation.replacement import write_whole
    from bandgap.predictions.window import Window
    from bandgap.storage.manifests import read_manifest

    target = Window.parse(window)
    check_exist(structures)
    read_manifest(model, kind="run")

    # Imported after the inputs were checked, because they import torch.
    from bandgap.foundation.machine import set_threads
    from bandgap.proposals.candidates import known_molecules
    from bandgap.runs.companion import write_companion
    from bandgap.runs.molecule_proposals import ProposalSettings, check_model, propose_molecules
    from bandgap.runs.proposal_files import description, extxyz_text, notes

    settings = ProposalSettings(
        target,
        count=count,
        n_generated=generated,
        n_compared=compared,
        seed=seed,
    )
    check_model(model)
    set_threads()
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        known_set = known_molecules(records, progress=progress)
        print_note(known_set.sentence)
        proposed = propose_molecules(
            model,
            known_set,
            settings,
            cache=descriptor_cache(),
            progress=progress,
        )
    write_whole(out, csv_of_columns(proposed.columns()))
    body = description(model, proposed, seed=seed)
    write_companion(out, body)
    if extxyz is not None:
        write_whole(extxyz, extxyz_text(proposed))
        write_companion(extxyz, body)
    n_new = sum(not is_known for is_known in proposed.is_known)
    typer.echo(
        f"{n_new:,} new and {len(proposed.rows) - n_new:,} known molecules written to {out}; "
        f"{proposed.p_window.sum():.1f} of them are expected to have a gap of "
        f"{settings.window.label}"
    )
    for sentence in notes(proposed):
        print_note(sentence)
