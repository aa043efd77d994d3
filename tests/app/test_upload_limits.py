"""Uploads that nobody submits: how many of them the server keeps."""

import pytest
from starlette.exceptions import HTTPException
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from app import upload_limits
from app.upload_limits import LimitedUploads


def upload(uploads: LimitedUploads, session: str, name: str, size: int) -> None:
    uploads.add_file(session, UploadedFileRec(name, f"{name}.cif", "text/plain", b"#" * size))


def is_refused(uploads: LimitedUploads, session: str, name: str, size: int) -> bool:
    try:
        upload(uploads, session, name, size)
    except HTTPException as error:
        assert error.status_code == 413
        return True
    return False


def test_uploads_of_a_session_and_of_all_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upload_limits, "MAX_UPLOAD_BYTES", 100)
    monkeypatch.setattr(upload_limits, "MAX_BYTES", 150)
    uploads = LimitedUploads("/upload")
    upload(uploads, "first", "a", 60)
    assert is_refused(uploads, "first", "b", 50)
    upload(uploads, "second", "a", 80)
    assert is_refused(uploads, "third", "a", 20)
    uploads.remove_file("first", "a")
    upload(uploads, "first", "b", 50)
    assert [len(uploads.file_storage[name]) for name in ("first", "second")] == [1, 1]


def test_number_of_files_of_a_session_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upload_limits, "MAX_FILES", 2)
    uploads = LimitedUploads("/upload")
    upload(uploads, "first", "a", 0)
    upload(uploads, "first", "b", 0)
    assert is_refused(uploads, "first", "c", 0)
