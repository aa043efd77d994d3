"""The job that proposes molecules for a gap window with a finished run. Experimental."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.foundation.replacement import replaced_folder, write_whole
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.proposals import DESCRIPTION, DRAWINGS, MOLECULES, SHAPES, TABLE, proposal_folder
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.records import read_records

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord


def propose(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Write proposed molecules for the window of the payload; return the numbers of the list.

    The payload has `run`, `dataset` ("" for the demo molecules), `window`, `count`, `generated`
    and `seed`.
    """
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.descriptors.rdkit_package import rdkit_module
    from bandgap.foundation.csv_tables import csv_of_columns
    from bandgap.foundation.machine import set_threads
    from bandgap.predictions.window import Window
    from bandgap.proposals.candidates import known_molecules
    from bandgap.proposals.chemistry import drawing_svg
    from bandgap.runs.molecule_proposals import ProposalSettings, check_model, propose_molecules
    from bandgap.runs.proposal_files import description, extxyz_text
    from bandgap.structures.drawing import shape_of
    from bandgap.structures.shapes import save_shapes

    set_threads()
    library = Library(home)
    payload = job.payload
    run = library.run(job.workspace, payload["run"])
    if run is None:
        raise InputError("This workspace has no such run. Choose a finished run from the list.")
    rdkit_module()
    model = home.run_folder(run.id)
    check_model(model)
    seed = int(payload["seed"])
    known_set = known_molecules(_records(job, library, progress), progress=progress)
    proposed = propose_molecules(
        model,
        known_set,
        ProposalSettings(
            Window.parse(payload["window"]),
            count=int(payload["count"]),
            n_generated=int(payload["generated"]),
            seed=seed,
        ),
        cache=DescriptorCache(home.cache),
        progress=progress,
    )
    progress(Update("drawing molecules"))
    body = description(model, proposed, seed=seed)
    drawings = [drawing_svg(str(record.info["smiles"])) for record in proposed.records]
    with replaced_folder(proposal_folder(home, run.id, job.id)) as new:
        write_whole(new / TABLE, csv_of_columns(proposed.columns()))
        write_whole(new / MOLECULES, extxyz_text(proposed))
        write_whole(new / DRAWINGS, json.dumps(drawings))
        save_shapes(new / SHAPES, map(shape_of, proposed.records))
        notes = [known_set.sentence, *body["notes"]]
        write_whole(new / DESCRIPTION, json.dumps(body | {"notes": notes}, indent=1))
    n_known = sum(proposed.is_known)
    return {"n": len(proposed.rows), "known": n_known, "new": len(proposed.rows) - n_known}


def _records(job: Job, library: Library, progress: Progress) -> list[StructureRecord]:
    """Return the structures to learn from: those of a data set, or the demo molecules."""
    if not job.payload["dataset"]:
        from bandgap.datasets.demo import load_demo

        progress(Update("reading structures"))
        return list(load_demo("molecules").records)
    dataset = library.dataset(job.workspace, str(job.payload["dataset"]))
    return read_records(library, dataset, progress=progress)
