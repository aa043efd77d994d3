"""The training of a source model from labelled structures and a request."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bandgap.datasets.checked import checked_set
from bandgap.datasets.table import LabelledSet
from bandgap.descriptors import config_for
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.arguments import as_folder, check_type
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import kl_weights_to_try
from bandgap.runs.requests import SourceRequest
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder

if TYPE_CHECKING:
    from bandgap.descriptors import DescriptorConfig


@checked_keywords(SourceRequest)
def train_source_run(
    data: LabelledSet,
    request: SourceRequest,
    *,
    out: Path | str,
    descriptor: "DescriptorConfig | None" = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Path:
    """Train a source model on labelled structures and write it to a folder.

    Parameters
    ----------
    data
        Structures of any kind that `as_records` takes, with their gaps (n,) in eV, their level of
        theory and their licence. Structures that are refused or have no gap (NaN) are left out.
    request
        Network, descriptor, data split and settings.
    out
        Folder to write, which `transfer_run` takes as a source.
    descriptor
        Descriptor of a perceptron, instead of the request's preset or species.
    cache
        Cache of descriptors on disk.
    progress
        Called with every step; may raise `Cancelled`.

    Returns
    -------
    Path
        The folder `out`.

    Raises
    ------
    InputError
        For structures of another kind, and for values that are not gaps. When no structures are
        left, or fewer than the request's split needs.
    ConfigError
        When a perceptron has no descriptor, and where the package of a graph network is not
        installed.
    """
    check_type(request, SourceRequest, name="request")
    folder = as_folder(out, name="out")
    data = checked_set(data)
    check_network(request)
    train = _trainer(request, descriptor)
    return train(
        data.records,
        data.gaps_eV,
        config=source_config(request),
        out=folder,
        seed=request.seed,
        level_of_theory=data.level_of_theory,
        licence=request.licence or data.licence,
        device=request.device,
        cache=cache,
        n_jobs=request.n_jobs,
        progress=progress,
    )


def check_network(request: SourceRequest) -> None:
    """Raise ConfigError where the package of the request's network is not installed."""
    if request.network == "megnet":
        import bandgap.networks.megnet  # noqa: F401 - it says how to install its package


def source_config(request: SourceRequest) -> SourceConfig:
    """Return the settings of the network, of its training and of its extras."""
    snapshots = None
    if request.snapshots is not None:  # moments need at least the default number of snapshots
        snapshots = SnapshotConfig(
            count=max(request.snapshots, SnapshotConfig.count), rank=request.snapshots
        )
    return SourceConfig(
        hidden=request.hidden_widths,
        training=TrainingConfig(max_epochs=request.max_epochs),
        variational=kl_weights_to_try(max_steps=request.variational_steps)
        if request.variational
        else (),
        snapshots=snapshots,
        split=request.split,
    )


def _trainer(request: SourceRequest, descriptor: "DescriptorConfig | None") -> Callable[..., Path]:
    """Return the training of the request's network."""
    if request.network == "megnet":
        from bandgap.sources.graph_training import train_graph_source_run

        return train_graph_source_run
    if descriptor is None:
        if request.preset is None and request.species is None:
            raise ConfigError(
                "no descriptor. Give a preset (such as oe62-16) or species (such as H C N O)."
            )
        descriptor = config_for(preset=request.preset, species=request.species)
    return functools.partial(train_source_folder, descriptor=descriptor)
