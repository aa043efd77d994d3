"""Notes and tags that the user writes on runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import InputError
from bandgap.jobs.database import row_damage_reported
from bandgap.jobs.library import Library

MAX_NOTE = 500  # characters
MAX_TAGS = 12
MAX_TAG = 30  # characters


@dataclass(frozen=True)
class RunNote:
    """The note and the tags of a run."""

    text: str = ""
    tags: tuple[str, ...] = ()


def run_notes(library: Library, workspace: str) -> dict[str, RunNote]:
    """Return the notes of the runs of a workspace by run id, without runs that have none."""
    rows = library.database.rows("SELECT * FROM run_note WHERE workspace = ?", workspace)
    notes = {}
    for row in rows:
        with row_damage_reported("run_note"):
            tags = tuple(map(str, parse_json(row["tags"], what="tags")))
        notes[row["run"]] = RunNote(row["note"], tags)
    return notes


def set_run_note(library: Library, workspace: str, run_id: str, note: RunNote) -> RunNote:
    """Store the note and the tags of a run, and return them with single spaces.

    Empty and repeated tags are left out. Raises InputError for a run that is not of this workspace,
    and for a note or tags over the limits.
    """
    run = library.run(workspace, run_id)
    if run is None:
        raise InputError("This workspace has no such run. Choose one from the list.")
    checked = RunNote(" ".join(note.text.split()), _checked_tags(note.tags, of=run.title))
    if len(checked.text) > MAX_NOTE:
        raise InputError(
            f"The note on {run.title} has {len(checked.text)} characters. Accepted: at most "
            f"{MAX_NOTE}."
        )
    with library.database.writing() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO run_note VALUES (?, ?, ?, ?)",
            (run_id, workspace, checked.text, json.dumps(checked.tags)),
        )
    return checked


def _checked_tags(tags: Sequence[str], *, of: str) -> tuple[str, ...]:
    checked = tuple(dict.fromkeys(tag for tag in (" ".join(text.split()) for text in tags) if tag))
    if len(checked) > MAX_TAGS:
        raise InputError(f"{of} has {len(checked)} tags. Accepted: at most {MAX_TAGS}.")
    for tag in checked:
        if len(tag) > MAX_TAG:
            raise InputError(
                f"The tag {tag[:MAX_TAG]!r}... on {of} has {len(tag)} characters. Accepted: at "
                f"most {MAX_TAG}."
            )
    return checked
