"""Refit: a tested run is repeated with all of its labels, for the predictions that count.

A run holds out structures to measure its error. Once the error is known, they are worth more as
labels. `refit_run` learns from all of them with the same request. The result reports the test of
its parent (`bandgap.runs.parent_test`).
"""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bandgap.datasets.shipped_models import folder_of_source
from bandgap.datasets.table import LabelledSet
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.arguments import as_folder
from bandgap.foundation.config import fingerprint
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.inference.checkpoints import CHECKPOINT
from bandgap.runs.explanation import check_same_own
from bandgap.runs.parent_test import ParentTest, read_parent
from bandgap.runs.transfer import Prepared, fit, prepare, report, split_rows
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.stored import source_fingerprint
from bandgap.storage.result_folders import check_result_folder


@checked_keywords()
def refit_run(
    run: Path | str,
    source: Path | str | None,
    data: LabelledSet,
    *,
    out: Path | str,
    cache: DescriptorCache | None = None,
    checkpoints: Path | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Path:
    """Repeat a tested run with all labelled structures and write the new run to a folder.

    Method, settings and seed are those of the parent. Held-out structures, and those held back for
    conformal intervals, are learned from too. Error, coverage and held-out predictions of the new
    run are those of its parent, and so are conformal scores and a stored calibrator: scores of the
    new run on structures that it has learned from would give intervals that are too narrow.

    Parameters
    ----------
    run
        Folder of the parent, a run with held-out structures.
    source, data
        Source model and labelled structures of the parent, as in `transfer_run`.
    out
        Folder to write; it must not be that of the parent.
    cache, checkpoints, inputs, progress
        As in `transfer_run`.

    Returns
    -------
    Path
        The folder `out`.

    Raises
    ------
    InputError
        When structures, labels or source are not those of the parent, whose error would then not
        apply. For a parent without a test, and for one that was refitted itself.
    """
    started = time.perf_counter()
    folder = as_folder(out, name="out")
    parent = read_parent(as_folder(run, name="run"))
    source_folder = folder_of_source(source)
    check_result_folder(folder, kind="run", inputs=[source_folder, parent.folder])
    prepared = prepare(source_folder, data, parent.request)
    check_content(parent, prepared)
    tables = split_rows(prepared, cache=cache, progress=progress)
    unfinished = folder / CHECKPOINT if checkpoints is None else checkpoints
    fitted = fit(prepared, tables, checkpoints=unfinished, progress=progress)
    report(
        prepared,
        tables,
        fitted,
        folder=folder,
        started=started,
        parent=parent,
        inputs=inputs,
        progress=progress,
    )
    if prepared.request.checkpoint_every:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def check_content(parent: ParentTest, prepared: Prepared) -> None:
    """Raise InputError unless data and source are those of the parent."""
    data = parent.manifest["data"]
    if data["fingerprint"] != prepared.facts["data"]["fingerprint"]:
        raise InputError(
            f"{parent.folder}: the labelled structures differ from those of this run "
            f"({data['n_labelled']:,} then, {prepared.facts['data']['n_labelled']:,} now, or other "
            "gaps or ids). Its error does not apply to a fit of other data: give the same files, "
            "or train a new run with some held out."
        )
    check_same_own(
        parent.manifest["descriptor"].get("user_features"), prepared.descriptor.user_features
    )
    level = parent.manifest["level_of_theory"]
    if level and level != prepared.theory_level:
        raise InputError(
            f"{parent.folder}: the gaps are of {prepared.theory_level!r} now, and of "
            f"{level!r} in this run. Give the same level of theory."
        )
    if parent.manifest["source"]["fingerprint"] != _source_content(parent, prepared):
        raise InputError(
            f"{parent.folder}: the source model differs from that of this run. Its error does not "
            "apply to another source: give the same one, or train a new run."
        )


def _source_content(parent: ParentTest, prepared: Prepared) -> str:
    """Return the fingerprint of the source, as `Origin.facts` writes it to a manifest."""
    origin = prepared.origin
    if origin.sources is None:
        return NO_SOURCE
    source = parent.manifest["source"]
    members = origin.stored
    if origin.sources.has_several_heads:
        has_new_elements = bool(source.get("new_elements"))
        together = origin.method.together and not has_new_elements
        members = origin.sources.load(None if together else source["head"], extras=not together)
    return fingerprint([source_fingerprint(member[source["head"]]) for member in members])
