"""The job that trains a source model."""

from typing import TYPE_CHECKING, Any

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.disk import removed_on_failure
from bandgap.jobs.server_files import VARIABLE, allowed_folder, checked_file
from bandgap.jobs.tasks.records import Work, labelled_set
from bandgap.runs.requests import SourceRequest

if TYPE_CHECKING:
    from bandgap.datasets.table import LabelledSet
    from bandgap.descriptors import DescriptorConfig

MIN_LABELLED = 50
MAX_STRUCTURES = 100_000
MAX_FEATURE_BYTES = 4_000_000_000


def train_source(work: Work) -> dict[str, Any]:
    """Train a source model and write its folder; a job that does not finish leaves none."""
    from bandgap.runs.source import check_network, train_source_run

    payload = work.job.payload
    request = SourceRequest(**payload["request"])
    check_network(request)  # before structures are read
    data = labelled_molecules(work, request.licence)
    out = work.home.source_folder(payload["source"])
    with removed_on_failure(out):
        train_source_run(
            data,
            request,
            out=out,
            descriptor=descriptor_of(request, data) if request.network == "perceptron" else None,
            cache=work.cache,
            progress=work.progress,
        )
    return {"folder": out.name}


def labelled_molecules(work: Work, licence: str) -> "LabelledSet":
    """Return the labelled structures of a job, with their level of theory and licence.

    Raises InputError when the file may not be opened, and when there are too few or too many
    structures.
    """
    payload = work.job.payload
    progress = work.progress
    if payload.get("file"):
        data = _from_file(str(payload["file"]), str(payload["level"]), licence, progress=progress)
    else:
        data = labelled_set(work.library, work.dataset, licence=licence, progress=progress)
    n = len(data.records)
    if not MIN_LABELLED <= n <= MAX_STRUCTURES:
        raise InputError(
            f"{n:,} structures with a gap; a source model is trained here from {MIN_LABELLED:,} to "
            f"{MAX_STRUCTURES:,}. Choose another set, or use `bandgap train-source` in a shell."
        )
    return data


def descriptor_of(request: SourceRequest, data: "LabelledSet") -> "DescriptorConfig":
    """Return the descriptor of a request: its preset, or one for the elements of the structures.

    Raises InputError when the features would need more memory than a job may take.
    """
    from bandgap.descriptors import config_for, feature_bytes, n_features

    if request.preset is not None:
        config = config_for(preset=request.preset)
    else:
        symbols = {
            str(s)
            for record in data.records
            if record.atoms is not None
            for s in record.atoms.symbols
        }
        config = config_for(species=request.species or sorted(symbols))
    n_bytes = feature_bytes(config, len(data.records))
    if n_bytes > MAX_FEATURE_BYTES:
        raise InputError(
            f"{n_features(config):,} features of {len(data.records):,} structures take "
            f"{n_bytes / 1e9:.1f} GB; at most {MAX_FEATURE_BYTES / 1e9:.0f} GB are accepted. "
            "Choose a descriptor of fewer elements, or fewer structures."
        )
    return config


def _from_file(name: str, level: str, licence: str, *, progress: Progress) -> "LabelledSet":
    from bandgap.datasets.oe62 import read_oe62
    from bandgap.datasets.table import LabelledSet

    folder = allowed_folder()
    if folder is None:
        raise InputError(
            f"This server offers no folder of files. Whoever runs it can set {VARIABLE}."
        )

    def counted(update: Update, /) -> None:
        if update.done > MAX_STRUCTURES:
            raise InputError(
                f"{name} holds more than {MAX_STRUCTURES:,} structures. Use `bandgap "
                "train-source` in a shell."
            )
        progress(update)

    # read_oe62 checks the level
    path = checked_file(folder, name)
    data = read_oe62(path, level=level, progress=counted)  # type: ignore[arg-type]
    return LabelledSet(data.records, data.gaps_eV, data.level_of_theory, licence)
