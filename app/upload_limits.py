"""Limits on the uploads that wait in the memory of the server, for a session and for all sessions.

Streamlit keeps every file that was chosen in a form until it is submitted or its session ends, and
limits only the size of one file.
"""

from starlette.exceptions import HTTPException
from streamlit.runtime import memory_uploaded_file_manager
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from bandgap.jobs.rows import MAX_FILES, MAX_UPLOAD_BYTES

MAX_BYTES = 2_000_000_000  # of all sessions together


class LimitedUploads(MemoryUploadedFileManager):
    """The files of all sessions; one over the limits is answered with the code 413."""

    def add_file(self, session_id: str, file: UploadedFileRec) -> None:
        """Keep a file of a session. Raises HTTPException over the limits."""
        files = self.file_storage.get(session_id, {}).values()
        if (
            len(files) >= MAX_FILES
            or sum(len(other.data) for other in files) + len(file.data) > MAX_UPLOAD_BYTES
            or self._total_bytes + len(file.data) > MAX_BYTES
        ):
            raise HTTPException(413, "Too many files wait here. Submit or remove them first.")
        super().add_file(session_id, file)


def limit_uploads() -> None:
    """Let servers that are created from now on limit the uploads that wait."""
    memory_uploaded_file_manager.MemoryUploadedFileManager = LimitedUploads  # type: ignore[misc]
