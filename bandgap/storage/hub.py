"""Runs on the Hugging Face Hub: a repository with the files of a run and a model card.

`hf://OWNER/NAME` names one, `hf://OWNER/NAME@REVISION` a version of it. Address, token, cache and
offline mode are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE.
"""

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from bandgap.foundation.errors import InputError
from bandgap.foundation.extras import package

_CARD: Final = "README.md"


def local_folder(path: Path) -> Path:
    """Return a path as it is, or for hf://OWNER/NAME the folder of that run in the hub's cache.

    Only files that belong to a run are downloaded, within the limits of a zip of a run.

    Raises
    ------
    ConfigError
        If huggingface_hub is not installed.
    InputError
        Where the hub has no such run, or it is too large, or the hub cannot be reached and the
        cache does not have it.
    """
    if path.parts[:1] != ("hf:",):
        return path
    from bandgap.storage.run_archives import PATTERNS, RUN_ARCHIVES

    repository, _, revision = path.as_posix().removeprefix("hf:/").partition("@")
    files: dict[str, Any] = {
        "revision": revision or None,
        "allow_patterns": [*PATTERNS],
        "ignore_patterns": ["*/*"],
    }
    with _hub(repository) as hub:
        # Offline there is only what was downloaded within the limits.
        with contextlib.suppress(hub.errors.DryRunError):
            listed = hub.snapshot_download(repository, **files, dry_run=True)
            if sum(file.file_size for file in listed) > RUN_ARCHIVES.limits.max_archive_bytes:
                raise ValueError("its files are larger than those of any run")
            if listed:
                files["revision"] = listed[0].commit_hash  # of the files whose sizes are known
        return Path(hub.snapshot_download(repository, **files))


def upload_run(folder: Path, repository: str, card: str, *, private: bool) -> str:
    """Upload a run with its card in one commit, and return the address of the repository.

    It is created if there is none. Files of an earlier run are removed.

    Raises
    ------
    ConfigError
        If huggingface_hub is not installed.
    InputError
        Where the hub refuses the upload, or cannot be reached.
    """
    files: dict[str, Path | bytes] = {
        path.name: path for path in folder.iterdir() if _belongs(path.name)
    }
    files[_CARD] = card.encode()
    with _hub(repository) as hub:
        api = hub.HfApi()
        address = api.create_repo(repository, private=private, exist_ok=True)
        removed = set(filter(_belongs, api.list_repo_files(repository))) - files.keys()
        operations = [
            *(hub.CommitOperationAdd(name, content) for name, content in files.items()),
            *(hub.CommitOperationDelete(name) for name in removed),
        ]
        api.create_commit(repository, operations, commit_message="Upload a run of bandgap")
    return str(address)


def _belongs(name: str) -> bool:
    from bandgap.storage.run_archives import RUN_ARCHIVES

    return RUN_ARCHIVES.belongs(PurePosixPath(name))


@contextlib.contextmanager
def _hub(repository: str) -> Iterator[Any]:
    """Yield the package huggingface_hub, and raise what it raises as InputError."""
    hub = package("huggingface_hub", extra="hub", user="The Hugging Face Hub")
    importlib.import_module("huggingface_hub.errors")  # not loaded with the package
    try:
        yield hub
    except (OSError, ValueError, hub.errors.HTTPError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"hf://{repository}: {reason}. Accepted: hf://OWNER/NAME of a run that `push_to_hub` "
            "uploaded; for a private one, `hf auth login` first."
        ) from error
