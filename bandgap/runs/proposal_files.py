"""The files of proposed molecules: extXYZ, and the JSON file that describes the list."""

import dataclasses
from pathlib import Path
from typing import Any

from bandgap.predictions.extxyz import interval_numbers, usable_rows
from bandgap.runs.companion import UNITS, companion
from bandgap.runs.molecule_proposals import PACKING_NOTE, ProposedMolecules
from bandgap.runs.requests import PredictRequest
from bandgap.storage.manifests import read_manifest
from bandgap.structures.formats.xyz import extxyz_blocks


def extxyz_text(proposed: ProposedMolecules) -> str:
    """Return the molecules as extXYZ, with SMILES and predictions in the comment lines."""
    numbers = dict(
        zip(
            usable_rows(proposed.predictions),
            interval_numbers(proposed.predictions, level=0.95, kind="prediction"),
            strict=True,
        )
    )
    comments = [
        {
            "id": record.id,
            "smiles": record.info["smiles"],
            **numbers[row],
            "p_window": round(float(p), 6),
            "warning": proposed.predictions.warning(row),
        }
        for record, row, p in zip(proposed.records, proposed.rows, proposed.p_window, strict=True)
    ]
    return "".join(extxyz_blocks(proposed.records, comments))


def description(model_folder: Path, proposed: ProposedMolecules, *, seed: int) -> dict[str, Any]:
    """Return the content of the JSON file next to the table."""
    body = companion(
        read_manifest(model_folder, kind="run"),
        PredictRequest(window=str(proposed.window)),
        columns=UNITS,
        rows={"proposed": len(proposed.rows), "known": sum(proposed.is_known)},
    )
    return body | {
        "kind": "bandgap proposals",
        "seed_of_proposals": seed,
        "counts": dataclasses.asdict(proposed.counts),
        "geometry_rms_eV": proposed.geometry_rms_eV,
        "property_distances": proposed.property_shift,
        "property_distances_of_halves": proposed.property_floor,
        "warning": proposed.counts.warning,
        "notes": notes(proposed),
    }


def notes(proposed: ProposedMolecules) -> list[str]:
    """Return what must be read with the list: counts, warnings, and what is not known."""
    sentences = (
        proposed.counts.sentence,
        proposed.counts.warning,
        proposed.property_sentence,
        proposed.geometry_sentence,
        PACKING_NOTE,
    )
    return [sentence for sentence in sentences if sentence]
