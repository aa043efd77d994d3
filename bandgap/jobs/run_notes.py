"""Notes that the user writes on runs."""

from bandgap.foundation.errors import InputError
from bandgap.jobs.library import Library

MAX_NOTE = 500  # characters


def run_notes(library: Library, workspace: str) -> dict[str, str]:
    """Return the notes of the runs of a workspace by run id.

    A note that was removed is an empty text.
    """
    rows = library.database.rows("SELECT * FROM run_note WHERE workspace = ?", workspace)
    return {row["run"]: row["note"] for row in rows}


def set_run_note(library: Library, workspace: str, run_id: str, note: str) -> None:
    """Store the note of a run with single spaces.

    Raises InputError for a run that is not of this workspace, and for a note over the limit.
    """
    run = library.run(workspace, run_id)
    if run is None:
        raise InputError("This workspace has no such run. Choose one from the list.")
    text = " ".join(note.split())
    if len(text) > MAX_NOTE:
        raise InputError(
            f"The note on {run.title} has {len(text)} characters. Accepted: at most {MAX_NOTE}."
        )
    library.database.write(
        "INSERT OR REPLACE INTO run_note VALUES (?, ?, ?)", run_id, workspace, text
    )
