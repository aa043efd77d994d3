"""Files of downloads stay until the browser has had time to fetch them."""

import pytest
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.media_file_storage import MediaFileStorageError
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from app import download_time


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> MemoryMediaFileStorage:
    """A storage with one file that was made by a press of a button."""
    from streamlit.runtime import media_file_manager

    monkeypatch.setattr(
        media_file_manager, "MediaFileMetadata", media_file_manager.MediaFileMetadata
    )
    download_time.keep_downloads()
    return MemoryMediaFileStorage("/media")


def made_file(manager: MediaFileManager) -> str:
    """Return the id of a file that the press of a button has made."""
    button = manager.add_deferred(lambda: b"id,gap_eV\n", "text/csv", "1.2", file_name="a.csv")
    return manager.execute_deferred(button).rpartition("/")[2]


def test_file_of_a_download_stays_while_other_script_runs_end(files: MemoryMediaFileStorage):
    manager = MediaFileManager(files)
    name = made_file(manager)
    for _ in range(50):
        manager.remove_orphaned_files()
    assert files.get_file(name).content == b"id,gap_eV\n"


def test_file_of_a_download_is_deleted_after_its_time(
    files: MemoryMediaFileStorage, monkeypatch: pytest.MonkeyPatch
):
    manager = MediaFileManager(files)
    name = made_file(manager)
    manager.remove_orphaned_files()
    monkeypatch.setattr(download_time, "KEEP_S", 0.0)
    manager.remove_orphaned_files()
    with pytest.raises(MediaFileStorageError):
        files.get_file(name)
