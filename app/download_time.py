"""Repair of a fault of Streamlit: a new download is deleted before the browser has fetched it.

The file of a download button whose data are made on a press belongs to no page. Streamlit (1.67)
deletes it after the second script run that ends, of any session. Where several users are at work,
that is a fraction of a second, and the browser's request then answers "not found".
"""

import time

from streamlit.runtime import media_file_manager
from streamlit.runtime.media_file_manager import MediaFileMetadata
from streamlit.runtime.media_file_storage import MediaFileKind

KEEP_S = 120.0  # time in which the browser can begin to fetch a file that no page uses


class TimedMetadata(MediaFileMetadata):
    """Metadata of a file, which is deleted when it has been unused for `KEEP_S`."""

    def __init__(self, kind: MediaFileKind = MediaFileKind.MEDIA) -> None:
        super().__init__(kind)
        self._unused_since: float | None = None

    @property
    def is_marked_for_delete(self) -> bool:
        """Whether a file that no session uses is to be deleted."""
        return self._unused_since is not None and time.monotonic() - self._unused_since > KEEP_S

    def mark_for_delete(self) -> None:
        """Take note that no session uses the file, when that is first seen."""
        if self._unused_since is None:
            self._unused_since = time.monotonic()


def keep_downloads() -> None:
    """Let Streamlit keep the files of downloads for `KEEP_S` from now on."""
    media_file_manager.MediaFileMetadata = TimedMetadata  # type: ignore[misc]
