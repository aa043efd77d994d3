"""The job that proposes molecules for a gap window with a finished run. Experimental."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bandgap.foundation.progress import Update
from bandgap.foundation.replacement import replaced_folder, write_whole
from bandgap.jobs.proposals import DESCRIPTION, DRAWINGS, MOLECULES, SHAPES, TABLE, proposal_folder
from bandgap.jobs.tasks.records import Work, read_records

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord


def propose(work: Work) -> dict[str, Any]:
    """Write proposed molecules for the window of the payload; return the numbers of the list.

    The payload has `run`, `dataset` ("" for the demo molecules), `window`, `count`, `generated`
    and `seed`.
    """
    from bandgap.foundation.csv_tables import csv_of_columns
    from bandgap.predictions.window import Window
    from bandgap.proposals.candidates import known_molecules
    from bandgap.proposals.chemistry import drawing_svg
    from bandgap.runs.molecule_proposals import ProposalSettings, check_model, propose_molecules
    from bandgap.runs.proposal_files import description, extxyz_text
    from bandgap.structures.drawing import shape_of
    from bandgap.structures.shapes import save_shapes

    payload = work.job.payload
    model = work.home.run_folder(work.run.id)
    check_model(model)
    seed = int(payload["seed"])
    known_set = known_molecules(_records(work), progress=work.progress)
    proposed = propose_molecules(
        model,
        known_set,
        ProposalSettings(
            Window.parse(payload["window"]),
            count=int(payload["count"]),
            n_generated=int(payload["generated"]),
            seed=seed,
        ),
        cache=work.cache,
        progress=work.progress,
    )
    work.progress(Update("drawing molecules"))
    body = description(model, proposed, seed=seed)
    drawings = [drawing_svg(str(record.info["smiles"])) for record in proposed.records]
    with replaced_folder(proposal_folder(work.home, work.run.id, work.job.id)) as new:
        write_whole(new / TABLE, csv_of_columns(proposed.columns()))
        write_whole(new / MOLECULES, extxyz_text(proposed))
        write_whole(new / DRAWINGS, json.dumps(drawings))
        save_shapes(new / SHAPES, map(shape_of, proposed.records))
        notes = [known_set.sentence, *body["notes"]]
        write_whole(new / DESCRIPTION, json.dumps(body | {"notes": notes}, indent=1))
    n_known = sum(proposed.is_known)
    return {"n": len(proposed.rows), "known": n_known, "new": len(proposed.rows) - n_known}


def _records(work: Work) -> list[StructureRecord]:
    """Return the structures to learn from: those of a data set, or the demo molecules."""
    if not work.job.payload["dataset"]:
        from bandgap.datasets.demo import load_demo

        work.progress(Update("reading structures"))
        return list(load_demo("molecules").records)
    return read_records(work.library, work.dataset, progress=work.progress)
