"""Zip archives of stored models (runs and sources): what of them is unpacked, within limits.

Nothing is unpickled, and only files that belong to a model are unpacked.
"""

import io
import zipfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import InputError
from bandgap.storage.manifests import MANIFEST, manifest_kind
from bandgap.structures.archives import unzip
from bandgap.structures.draft import Unreadable
from bandgap.structures.records import Limits


@dataclass(frozen=True)
class ModelArchives:
    """The zip archives of one kind of model.

    Parameters
    ----------
    noun
        What they contain, such as "run".
    kinds
        Kinds of its manifest.
    belongs
        Whether a file belongs to the model, by its path in the model's folder.
    limits
        Largest sizes and compression ratio.
    accepted
        Sentence that says what is accepted.
    """

    noun: str
    kinds: Collection[str]
    belongs: Callable[[PurePosixPath], bool]
    limits: Limits
    accepted: str

    def packed(self, folder: Path, *, name: str) -> bytes:
        """Return a zip archive of a model, the same bytes for the same files.

        They are in a folder of this name. Raises InputError where the folder is of another kind.
        """
        kind = manifest_kind(folder)
        if kind not in self.kinds:
            content = f"is the folder of a {kind}" if kind else f"has no readable {MANIFEST}"
            raise InputError(f"{folder} {content}, not of a {self.noun}. {self.accepted}")
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for path in sorted(folder.rglob("*")):
                place = PurePosixPath(path.relative_to(folder))
                if path.is_file() and self.belongs(place):
                    # float tensors shrink little and take long
                    is_stored = path.suffix == ".safetensors"
                    archive.writestr(
                        zipfile.ZipInfo(f"{name}/{place}"),
                        path.read_bytes(),
                        zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED,
                    )
        return buffer.getvalue()

    def unpack(self, source: Path | bytes, folder: Path, *, name: str) -> None:
        """Write the model in an archive to an existing folder.

        The model is the folder of the outermost manifest. Raises InputError, whose text starts with
        `name`, where there is none, where the archive is damaged or beyond the limits, and where
        the manifest is of another kind.
        """
        members = self._members(source, name=name)
        try:
            for member in unzip(source, limits=self.limits, names=members):
                if member.refusal:
                    raise Unreadable(f"{member.name}: {member.refusal}")
                path = folder / members[member.name]
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    file.writelines(member.content.blocks())
        except (Unreadable, zipfile.BadZipFile, *DAMAGE) as error:
            raise self._refusal(
                name, f"not a zip archive that can be unpacked ({error})"
            ) from error
        kind = manifest_kind(folder)
        if kind not in self.kinds:
            content = f"a {kind}" if kind else f"no readable {MANIFEST}"
            raise self._refusal(name, f"contains {content}, not a {self.noun}")

    def unpacked_bytes(self, source: Path | bytes, *, name: str) -> int:
        """Return the size of the model in an archive, as the archive states it.

        Raises InputError where the archive is damaged, and where it has no manifest.
        """
        members = self._members(source, name=name)
        with _opened(source) as archive:
            return sum(archive.getinfo(text).file_size for text in members)

    def _members(self, source: Path | bytes, *, name: str) -> dict[str, PurePosixPath]:
        """Return the names of the model's files in an archive, with their paths in its folder."""
        try:
            with _opened(source) as archive:
                paths = {text: PurePosixPath(text) for text in archive.namelist()}
        except (zipfile.BadZipFile, *DAMAGE) as error:
            raise self._refusal(
                name, f"not a zip archive that can be unpacked ({error})"
            ) from error
        tops = [path.parent for path in paths.values() if path.name == MANIFEST]
        if not tops:
            raise self._refusal(name, f"contains no readable {MANIFEST}, not a {self.noun}")
        top = min(tops, key=lambda path: len(path.parts))
        return {
            text: path.relative_to(top)
            for text, path in paths.items()
            if path.is_relative_to(top) and self.belongs(path.relative_to(top))
        }

    def _refusal(self, name: str, reason: str) -> InputError:
        return InputError(f"{name}: {reason}. {self.accepted}")


def _opened(source: Path | bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
