"""`bandgap propose`: molecules whose predicted gap lies in a window. Experimental."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import check_exist, descriptor_cache, load_structures, print_note
from bandgap.cli.zipped_run import takes_zipped_run

if TYPE_CHECKING:
    from bandgap.foundation.progress import Progress
    from bandgap.proposals.candidates import KnownMolecules
    from bandgap.research.molecules.molecule_training import MoleculeGenerator

GenerateBy = Literal["mutation", "network"]


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
    generate_by: Annotated[
        GenerateBy,
        typer.Option(
            "--by",
            help="mutation: one to three random changes of a known molecule. network: the "
            "edge-by-edge graph network, which is trained first.",
        ),
    ] = "mutation",
    generator: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --by network: folder of the trained network. It is read if it exists, else "
            "written after the training.",
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="With --by network: most steps of the training.")
    ] = 1_500,
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

    Experimental. Molecules are generated, embedded in 3D by RDKit, predicted with
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
    if generator is not None and generate_by != "network":
        raise typer.BadParameter("--generator is for --by network. Add it, or leave it out.")
    check_exist(structures)
    read_manifest(model, kind="run")

    # Imported after the inputs were checked, because they import torch.
    from bandgap.descriptors.rdkit_package import rdkit_module
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
    rdkit_module()
    check_model(model)
    set_threads()
    with progress_bars() as progress:
        records = load_structures(structures, progress=progress)
        known_set = known_molecules(records, progress=progress)
        print_note(known_set.sentence)
        network = (
            _generator(known_set, generator, n_steps=steps, seed=seed, progress=progress)
            if generate_by == "network"
            else None
        )
        proposed = propose_molecules(
            model,
            known_set,
            settings,
            generator=network,
            cache=descriptor_cache(),
            progress=progress,
        )
    write_whole(out, csv_of_columns(proposed.columns()))
    body = description(model, proposed, generate_by, seed=seed)
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


def _generator(
    known_set: KnownMolecules, folder: Path | None, *, n_steps: int, seed: int, progress: Progress
) -> MoleculeGenerator:
    """Return the stored generator of a folder, or train one and store it there."""
    from bandgap.research.molecules.molecule_training import (
        KIND,
        MoleculeTraining,
        load_generator,
        save_generator,
        train_generator,
    )
    from bandgap.storage.result_folders import check_result_folder

    if folder is not None and (folder / "manifest.json").exists():
        return load_generator(folder)
    if folder is not None:
        check_result_folder(folder, kind=KIND)
    network = train_generator(
        known_set.graphs,
        known_set.smiles,
        MoleculeTraining(n_steps=n_steps),
        seed=seed,
        progress=progress,
    )
    if folder is not None:
        save_generator(network, folder)
    return network
