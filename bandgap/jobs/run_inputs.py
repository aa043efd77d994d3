"""What a run was made from, for its zip: structures, gaps, and the script that repeats it."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bandgap.foundation.csv_tables import csv_of_columns
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.shell_commands import GAPS, SOURCE, stored_command
from bandgap.structures.formats import is_nameless

FOLDER = "structures"
SCRIPT = "repeat.sh"


def run_inputs(
    library: Library, run: RunRow, dataset: Dataset, manifest: Mapping[str, Any]
) -> dict[str, Path | bytes]:
    """Return the files from which a run can be repeated, by their paths in its zip.

    They are the files of its data set, the table of gaps with the baseline, its own features, and
    a script. Raises InputError where an upload is damaged.
    """
    home = library.home
    files: dict[str, Path | bytes] = {}
    if demo := DEMOS.get(dataset.origin):
        files[f"{FOLDER}/{demo.file}"] = demo.folder().parent / demo.file
    for number, file in enumerate(library.files(dataset.id), 1):
        parts = [part for part in PurePosixPath(file.name).parts if part not in ("/", "..")]
        if len(parts) == 1 and is_nameless(parts[0]):  # called after its folder
            parts *= 2
        place = "/".join([FOLDER, *parts])
        if place in files:
            place = "/".join([FOLDER, str(number), *parts])
        files[place] = home.upload_path(file.content)
    inputs = {"structures": list(files), "labels": GAPS}
    verdicts = [v for v in library.verdicts(dataset.id) if v.gap_eV is not None]
    columns: dict[str, list[Any]] = {
        "id": [v.id for v in verdicts],
        "gap_eV": [v.gap_eV for v in verdicts],
    }
    if baseline := run.request.baseline:
        columns[baseline] = [v.info.get(baseline) for v in verdicts]
    files[GAPS] = csv_of_columns(columns).encode()
    if features := run.request.features:
        digest, _, name = features.partition("/")
        files[f"features/{name}"] = home.upload_path(digest)
    command = stored_command({**manifest, "inputs": inputs}, source=run.source)
    note = f"\n# {SOURCE} is the folder of its source model." if SOURCE in command else ""
    files[SCRIPT] = (
        f"#!/bin/sh\n# Repeats this run with bandgap {manifest['versions']['bandgap']}.{note}\n"
        f'set -e\ncd "$(dirname "$0")"\n{command}\n'
    ).encode()
    return files
